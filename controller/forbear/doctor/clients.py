"""Find in a project's sources the clients and decorators that repeat requests by themselves. Sources are read, never run.

Numbers are attempts that arrived at a server for one call, counted with the defaults of the releases of late 2026
(tests/integration/doctor/test_switches.py counts them again).
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import resolve_name
from pathlib import Path
from typing import Final

from forbear.contract.retries import LIBRARIES
from forbear.doctor.seen import Concern, Finding, Weight

__all__ = ["CLIENTS", "Client", "findings_in", "project_modules"]

MAX_MODULES: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client that repeats requests by itself."""

    package: str
    # What its defaults do to one call.
    does: str
    # What ends it, as it is written in a call.
    switch: str
    # Last parts of the names that make one; "*Client" ends in Client.
    made_by: tuple[str, ...]
    # The argument (or dictionary key) that the switch sets.
    word: str


CLIENTS: Final[dict[str, Client]] = {
    client.package: client
    for client in (
        Client(
            package="openai",
            does="sends a POST 3 times on a lost answer or a 5xx",
            switch="max_retries=0",
            made_by=("OpenAI", "AsyncOpenAI", "AzureOpenAI", "AsyncAzureOpenAI"),
            word="max_retries",
        ),
        Client(
            package="anthropic",
            does="sends a POST 3 times on a lost answer or a 5xx",
            switch="max_retries=0",
            made_by=("Anthropic", "AsyncAnthropic", "AnthropicBedrock", "AnthropicVertex"),
            word="max_retries",
        ),
        Client(
            package="cloudflare",
            does="sends a POST 3 times on a lost answer or a 5xx",
            switch="max_retries=0",
            made_by=("Cloudflare", "AsyncCloudflare"),
            word="max_retries",
        ),
        Client(
            package="boto3",
            does="makes 3 attempts (dynamodb 4), writes included",
            switch='config=Config(retries={"total_max_attempts": 1})',
            made_by=("client", "resource", "Session"),
            word="total_max_attempts",
        ),
        Client(
            package="botocore",
            does="makes 3 attempts (dynamodb 4), writes included",
            switch='Config(retries={"total_max_attempts": 1})',
            made_by=("create_client", "get_session"),
            word="total_max_attempts",
        ),
        Client(
            package="azure",
            does="sends a POST 4 times on a 5xx or 429, and a PUT on a lost answer too",
            switch="retry_total=0",
            made_by=("*Client", "from_connection_string"),
            word="retry_total",
        ),
        Client(
            package="slack_sdk",
            does="sends a POST twice on a lost connection",
            switch="retry_handlers=[]",
            made_by=("WebClient", "AsyncWebClient"),
            word="retry_handlers",
        ),
        Client(
            package="pyairtable",
            does="creates a record 6 times on a lost connection",
            switch="retry_strategy=None",
            made_by=("Api", "Table", "Base"),
            word="retry_strategy",
        ),
        Client(
            package="redis",
            does="sends a command 11 times on a lost connection, INCR included",
            switch="retry=Retry(NoBackoff(), 0)",
            made_by=("Redis", "StrictRedis", "from_url", "RedisCluster"),
            word="retry",
        ),
        Client(
            package="urllib3",
            does="sends GET, PUT and DELETE 4 times on a lost answer, and any request 4 times on a TLS error",
            switch="retries=False",
            made_by=("PoolManager", "HTTPConnectionPool", "HTTPSConnectionPool", "ProxyManager"),
            word="retries",
        ),
        Client(
            package="aiohttp",
            does="sends GET, PUT and DELETE twice on a lost answer",
            switch="session._retry_connection = False",
            made_by=("ClientSession",),
            word="_retry_connection",
        ),
        Client(
            package="github",
            does="sends a POST 11 times on a lost answer, a 5xx or a refusal with Retry-After",
            switch="retry=None",
            made_by=("Github", "GithubIntegration"),
            word="retry",
        ),
        Client(
            package="notion_client",
            does="sends any request 3 times on a 429",
            switch="retry=False",
            made_by=("Client", "AsyncClient"),
            word="retry",
        ),
        Client(
            package="alpaca",
            does="sends an order 4 times on a 429 or 504",
            switch="client._retry = 0",
            made_by=("*Client",),
            word="_retry",
        ),
        Client(
            package="mcp",
            does="calls a tool 11 times that answers nothing but input_required",
            switch="client.session.call_tool(..., allow_input_required=True)",
            made_by=("Client",),
            word="allow_input_required",
        ),
    )
}
# Switches that are not an argument of what makes the client: they are looked for in the whole module.
_ELSEWHERE: Final = frozenset({"total_max_attempts", "_retry", "_retry_connection", "allow_input_required"})
# gRPC repeats calls where a service config, which is a text or a dictionary, asks for it.
_GRPC_ASKS: Final = "retryPolicy"
_GRPC_OFF: Final = "grpc.enable_retries"
# Quiet by default; a value in their switch makes them repeat.
_ASKED_TO: Final = {"stripe": "max_network_retries", "requests": "max_retries", "httpx": "retries", "httpx2": "retries"}

# What makes a tenacity decorator follow forbear's own rules.
_RECOVERY: Final = frozenset({"forbear_adapters.tenacity.recovery", "forbear_adapters.tenacity.bridge.recovery"})


@dataclass(frozen=True, slots=True)
class Module:
    """A module of the project: its name, its file's name and its source."""

    name: str
    file: str
    tree: ast.Module


def project_modules(names: Sequence[str]) -> list[Module]:
    """Return the modules with these names and those of the same project that they import, as they are loaded now.

    A module belongs to the project if its file is under the current folder, or if it shares its top-level package with
    one of `names`. Nothing is imported here.
    """
    tops = {name.partition(".")[0] for name in names}
    here, found, queue = Path.cwd().resolve(), dict[str, Module](), list(dict.fromkeys(names))
    while queue and len(found) < MAX_MODULES:
        name = queue.pop(0)
        module = None if name in found else _read(name, here, tops)
        if module is not None:
            found[name] = module
            queue += [one for one in _imported(module) if one not in found]
    return list(found.values())


def _read(name: str, here: Path, tops: set[str]) -> Module | None:
    if name.partition(".")[0] in ("forbear", "forbear_adapters"):
        return None
    file = getattr(sys.modules.get(name), "__file__", None)
    if not isinstance(file, str) or not file.endswith(".py"):
        return None
    path = Path(file).resolve()
    inside = path.is_relative_to(here) and not {"site-packages", "dist-packages"} & set(path.parts)
    if not inside and name.partition(".")[0] not in tops:
        return None
    try:
        return Module(name, path.relative_to(here).as_posix() if inside else path.name, ast.parse(path.read_bytes()))
    except (OSError, SyntaxError, ValueError):
        return None


def _imported(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = module.name if module.file.endswith("__init__.py") else module.name.rpartition(".")[0]
    try:
        return resolve_name("." * node.level + (node.module or ""), package)
    except ImportError:
        return ""


def findings_in(modules: Sequence[Module]) -> list[Finding]:
    """Return where the modules make clients that repeat requests, or repeat functions."""
    return [finding for module in modules for finding in _Reading(module).findings()]


class _Reading:
    """One module's imports by local name, and what it does with them."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._local: dict[str, str] = {}
        self._first: dict[str, int] = {}
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._note(alias.asname or alias.name.partition(".")[0], alias.name, node.lineno)
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                for alias in node.names:
                    self._note(alias.asname or alias.name, f"{node.module}.{alias.name}", node.lineno)

    def _note(self, local: str, dotted: str, line: int) -> None:
        self._local[local] = dotted if "." not in dotted or local != dotted.partition(".")[0] else local
        self._first.setdefault(dotted.partition(".")[0], line)

    def _at(self, line: int) -> str:
        return f"{self._module.file}:{line}"

    def _name(self, node: ast.expr) -> str:
        """Return the dotted name that an expression stands for, "" where it is none of an import."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        root = self._local.get(node.id, "") if isinstance(node, ast.Name) else ""
        return ".".join([root, *reversed(parts)]) if root else ""

    def findings(self) -> Iterator[Finding]:
        """Yield what is risky in this module."""
        made: set[str] = set()
        yield from self._grpc()
        for node in ast.walk(self._module.tree):
            if isinstance(node, ast.Call):
                dotted = self._name(node.func)
                client = CLIENTS.get(dotted.partition(".")[0])
                if client is not None and _makes(client, dotted):
                    made.add(client.package)
                    if not self._is_off(client, node):
                        yield self._client(client, node.lineno, Weight.RISK)
                yield from self._asked(node)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield from self._decorated(node)
            if isinstance(node, (ast.For, ast.AsyncFor)):
                yield from self._looped(node)
        for package, line in self._first.items():
            if package in CLIENTS and package not in made:
                yield self._client(CLIENTS[package], line, Weight.NOTE)

    def _client(self, client: Client, line: int, weight: Weight) -> Finding:
        seen = "" if weight is Weight.RISK else "; where one is made cannot be seen in this module"
        return Finding(
            concern=Concern.CLIENT_RETRIES,
            weight=weight,
            where=self._at(line),
            message=f"{client.package} {client.does}{seen}",
            change=client.switch,
        )

    def _is_off(self, client: Client, call: ast.Call) -> bool:
        """Say whether a client is made with its switch set; a value that cannot be read is the author's own choice."""
        for keyword in call.keywords:
            if keyword.arg == client.word:
                return not isinstance(keyword.value, ast.Constant) or not keyword.value.value
        # A switch in an object that is passed along (a Config), or that is set or said later.
        return client.word in _ELSEWHERE and any(
            (isinstance(node, ast.Constant) and node.value == client.word)
            or (isinstance(node, ast.keyword) and node.arg == client.word)
            or (isinstance(node, ast.Attribute) and node.attr == client.word and isinstance(node.ctx, ast.Store))
            for node in ast.walk(self._module.tree)
        )

    def _grpc(self) -> Iterator[Finding]:
        """Find a service config that asks for retries, in a module that uses grpcio and does not switch them off."""
        texts = [
            (node.value, node.lineno)
            for node in ast.walk(self._module.tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        asks = [line for text, line in texts if _GRPC_ASKS in text]
        if "grpc" in self._first and asks and all(text != _GRPC_OFF for text, _ in texts):
            yield Finding(
                concern=Concern.CLIENT_RETRIES,
                weight=Weight.RISK,
                where=self._at(min(asks)),
                message="grpc is told to repeat calls, by a retryPolicy of its service config",
                change='options=[("grpc.enable_retries", 0)]',
            )

    def _asked(self, call: ast.Call) -> Iterator[Finding]:
        dotted = self._name(call.func)
        package = dotted.partition(".")[0]
        for keyword in call.keywords:
            # The name of `**options` is None, as is the word of a package that is not in the table.
            if keyword.arg is not None and keyword.arg == _ASKED_TO.get(package) and not _is_nothing(keyword.value):
                yield Finding(
                    concern=Concern.CLIENT_RETRIES,
                    weight=Weight.RISK,
                    where=self._at(call.lineno),
                    message=f"{package} is told to repeat requests",
                    change=f"{keyword.arg}=0",
                )

    def _decorated(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Finding]:
        for decorator in node.decorator_list:
            name = self._name(decorator.func if isinstance(decorator, ast.Call) else decorator)
            library = name.partition(".")[0]
            if library in LIBRARIES:
                if isinstance(decorator, ast.Call) and self._follows_the_rules(decorator):
                    yield self._bounded(node)
                else:
                    yield self._repeats(node.lineno, f"{library} repeats {node.name!r} from inside")

    def _follows_the_rules(self, call: ast.Call) -> bool:
        """Say whether a decorator is made of `**recovery(...)` and nothing else."""
        return bool(call.keywords) and all(
            keyword.arg is None and isinstance(keyword.value, ast.Call) and self._name(keyword.value.func) in _RECOVERY
            for keyword in call.keywords
        )

    def _bounded(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Finding:
        return Finding(
            concern=Concern.RETRY_INSIDE,
            weight=Weight.NOTE,
            where=self._at(node.lineno),
            message=f"{node.name!r} is retried by the rules of `recovery()`, and forgets between calls",
            change="where a model proposes the calls, take it off and put a controller around",
        )

    def _looped(self, node: ast.For | ast.AsyncFor) -> Iterator[Finding]:
        name = self._name(node.iter.func) if isinstance(node.iter, ast.Call) else ""
        library = name.partition(".")[0]
        if library in LIBRARIES:
            yield self._repeats(node.lineno, f"a loop over {library} repeats what is in it")

    def _repeats(self, line: int, message: str) -> Finding:
        return Finding(
            concern=Concern.RETRY_INSIDE,
            weight=Weight.RISK,
            where=self._at(line),
            message=f"{message}; attempts multiply with those outside",
            change="take it off; the controller retries where that is safe",
        )


def _makes(client: Client, dotted: str) -> bool:
    last = dotted.rpartition(".")[2]
    return any(last.endswith(name[1:]) if name.startswith("*") else last == name for name in client.made_by)


def _is_nothing(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value
