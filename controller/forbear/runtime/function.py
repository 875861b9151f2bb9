"""An author's callable as a tool: its name, its signature, and the way between Python arguments and a call's JSON.

Nothing is decided here and no controller is known. `govern.py` and `execute.py` use it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from inspect import BoundArguments, Parameter, Signature
from typing import Final, cast

from forbear.contract.rebuild import NotOfType, rebuild
from forbear.contract.retries import retrying_library
from forbear.core.identity import canonical
from forbear.errors import ConfigError, Refused, UsageError
from forbear.runtime.contexts import is_context
from forbear.runtime.plain import NotJson, plain
from forbear.runtime.tools import name_of

__all__ = ["MARK", "Bound", "Function"]

# Attribute of a governed function: the tool's name.
MARK: Final = "__forbear__"

_POSITIONAL: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
# Their equality and their type say that they are the same JSON.
_SIMPLE: Final = frozenset({str, int, bool, type(None)})
# What a function of one of these kinds does happens while the result is read, after it was taken for done.
_LAZY: Final = (Generator, AsyncGenerator)
# Defaults of these kinds can change.
_FILLED: Final = frozenset({list, dict, set})


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """The arguments of one call of a function."""

    # What the call is: JSON, defaults included, injected and hidden parameters left out.
    arguments: dict[str, object]
    # The caller's own objects, by parameter.
    given: BoundArguments
    # The same as they were passed; None = they were read from JSON.
    passed: tuple[tuple[object, ...], dict[str, object]] | None = None
    # Names that keep the function from being called (unknown, missing, given twice); () = it can be called.
    invalid: tuple[str, ...] = ()
    # All arguments are plain values that cannot change.
    is_simple: bool = False


class Function:
    """One callable.

    Args:
        fn: A function, method, `functools.partial` or callable object.
        name: The tool's name; default: the function's own.
        injected: Parameters that a framework or the author supplies, and no model: they are no part of the call. Those
            that are annotated with a known framework's context are found without being named.
        hidden: Parameters that the controller supplies; callers do not see them.
        is_async: Whether a call gives an awaitable; default: what the function's form says.

    Raises:
        UsageError: it cannot be governed (a class, a generator function, governed already, no name).
        ConfigError: it retries inside, or a named parameter does not exist.
    """

    def __init__(
        self,
        fn: Callable[..., object],
        *,
        name: str | None = None,
        injected: Sequence[str] = (),
        hidden: Sequence[str] = (),
        is_async: bool | None = None,
    ) -> None:
        self.fn = fn
        # The author's code may be untyped.
        if not callable(fn):
            raise UsageError("a tool must be callable")
        core = _under_partials(fn)
        form = core if inspect.isroutine(core) or inspect.isclass(core) else type(core).__call__
        self.name = name if name is not None else _name(core)
        _check_kind(fn, form, self.name)
        _check_retries(fn, self.name)
        self.is_async = inspect.iscoroutinefunction(form) if is_async is None else is_async
        self.hidden = frozenset(hidden)
        self.full = _resolved_signature(fn, form, self.name)
        known = (p.name for p in self.full.parameters.values() if is_context(p.annotation))
        self.injected = frozenset(injected).union(known)
        kept = [parameter for parameter in self.full.parameters.values() if parameter.name not in self.hidden]
        # What callers see.
        self.signature = self.full.replace(parameters=kept)
        for parameter in (*injected, *hidden):
            if parameter not in self.full.parameters and not self._takes_any():
                raise ConfigError(f"tool {self.name!r}: has no parameter {parameter!r}")
        self._keywords = next((p.name for p in kept if p.kind is Parameter.VAR_KEYWORD), None)
        # What the defaults say in JSON, as they are now: a list that the function fills makes no other call of the next.
        self._defaults = {parameter.name: said for parameter in kept if (said := _said(parameter)) is not None}

    def _takes_any(self) -> bool:
        return any(parameter.kind is Parameter.VAR_KEYWORD for parameter in self.full.parameters.values())

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names that a call may have."""
        return tuple(
            parameter.name
            for parameter in self.signature.parameters.values()
            if parameter.name not in self.injected and parameter.kind not in _VARIADIC
        )

    @property
    def known_arguments(self) -> tuple[str, ...] | None:
        """Names that a call may have, or None where it may have any."""
        return None if self._takes_any() else self.parameters

    @property
    def required(self) -> tuple[str, ...]:
        """Names without which a call cannot be made."""
        return tuple(name for name in self.parameters if self.signature.parameters[name].default is Parameter.empty)

    # ---- from Python to the call ------------------------------------------------------------------------------------

    def bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Bound:
        """Return the call that these arguments make: the same one however they are passed.

        Raises:
            UsageError: an argument has no JSON form; the message names it, never its value.
        """
        try:
            given = self.signature.bind(*args, **kwargs)
        except TypeError:
            return self._unbound(args, kwargs)
        given.apply_defaults()
        arguments = self.arguments_of(given)
        is_simple = all(type(value) in _SIMPLE for value in arguments.values())
        return Bound(arguments, given, (args, dict(kwargs)), is_simple=is_simple)

    def _unbound(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Bound:
        """Return a call that cannot be made, with what keeps it from being made."""
        partial = self.signature.bind_partial()
        known = self.signature.parameters
        names = [parameter.name for parameter in known.values() if parameter.kind in _POSITIONAL]
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            if name in known:
                partial.arguments[name] = value
        unknown = [name for name in kwargs if name not in known]
        missing = [name for name in self.required if name not in partial.arguments]
        twice = [name for name in names[: len(args)] if name in kwargs]
        arguments = self.arguments_of(partial)
        for name in unknown:
            arguments[name] = self._plain(name, kwargs[name])
        if len(args) > len(names):
            arguments["*"] = [self._plain("*", value) for value in args[len(names) :]]
        return Bound(arguments, partial, invalid=tuple(dict.fromkeys((*unknown, *missing, *twice))) or ("*",))

    def arguments_of(self, given: BoundArguments, written: Mapping[str, object] | None = None) -> dict[str, object]:
        """Return bound Python arguments as the call's JSON.

        Args:
            given: The arguments.
            written: The JSON that they were made from; what has no JSON form of its own is what is written there.

        Raises:
            UsageError: an argument has no JSON form.
        """
        made: dict[str, object] = {}
        values = cast("dict[str, object]", given.arguments)
        for name, value in values.items():
            if name in self.injected:
                continue
            parameter = self.signature.parameters[name]
            if parameter.kind is Parameter.VAR_KEYWORD:
                more = cast("Mapping[str, object]", value)
                for key, member in more.items():
                    # Its own name is a keyword like any other.
                    if key in made or (key in self.signature.parameters and key != name):
                        raise UsageError(f"tool {self.name!r}: argument {key!r} is given twice")
                    if key not in self.injected:
                        made[key] = self._plain(key, member, written)
            elif value is parameter.default:
                # A default that no JSON can say (a sentinel, a dependency) is a constant of the function.
                if name in self._defaults:
                    made[name] = plain(self._defaults[name][0], name)
            else:
                made[name] = self._plain(name, value, written)
        return made

    def _plain(self, name: str, value: object, written: Mapping[str, object] | None = None) -> object:
        try:
            return plain(value, name)
        except NotJson as error:
            if written is not None and name in written:
                return written[name]
            raise UsageError(
                f"tool {self.name!r}: argument {error.path!r} is not JSON: {error.why}; "
                f"name it in injected=({name!r},) if no model supplies it"
            ) from None

    def read(self, proposed: Mapping[str, object]) -> Bound:
        """Return the call that a model's JSON makes: the same one however its values are written.

        Values are made what the annotations ask for, and defaults are filled in, so that "5" for 5, or a default that
        is written out, is no other call. What a model writes for a hidden parameter is no part of the call.
        """
        proposed = {name: value for name, value in proposed.items() if name not in self.hidden}
        given = self.signature.bind_partial()
        kept = {name: value for name, value in proposed.items() if name not in self.injected}
        invalid = [*(name for name in proposed if name not in kept), *self._fill(given, kept)]
        if invalid:
            return Bound(dict(proposed), given, invalid=tuple(dict.fromkeys(invalid)))
        given.apply_defaults()
        return Bound(self.arguments_of(given, kept), given)

    # ---- from the call to Python ------------------------------------------------------------------------------------

    def invoke(self, arguments: Mapping[str, object], bound: Bound | None = None) -> object:
        """Call the function with exactly what was decided about.

        Args:
            arguments: The call's JSON, and what the controller adds to it.
            bound: Where the call comes from; its objects are used where they still are what was decided about.

        Raises:
            Refused: the arguments do not fit the function (``INPUT_INVALID``).
        """
        if bound is not None and bound.invalid:
            raise _invalid(bound.invalid)
        value = self._invoked(arguments, bound)
        if isinstance(value, _LAZY):
            raise UsageError(f"tool {self.name!r}: returned a generator; a tool must return its whole result")
        return value

    def _invoked(self, arguments: Mapping[str, object], bound: Bound | None) -> object:
        added = {name: arguments[name] for name in self.hidden if name in arguments}
        decided = {name: value for name, value in arguments.items() if name not in added} if added else arguments
        if bound is not None and _same(bound, decided, self):
            if bound.passed is not None and not added:
                args, kwargs = bound.passed
                return self.fn(*args, **kwargs)
            call = self.full.bind_partial()
            call.arguments.update(bound.given.arguments)
        else:
            call = self._rebuilt(decided, bound)
        for name, value in added.items():
            if name in self.full.parameters or self._keywords is None:
                call.arguments[name] = value
            else:
                call.arguments[self._keywords] = {**call.arguments.get(self._keywords, {}), name: value}
        args, kwargs = _by_keyword(call)
        return self.fn(*args, **kwargs)

    def _rebuilt(self, decided: Mapping[str, object], bound: Bound | None) -> BoundArguments:
        """Return Python arguments made from JSON: a repeated, parked or edited call."""
        call = self.full.bind_partial()
        invalid = self._fill(call, decided)
        if invalid:
            raise _invalid(tuple(dict.fromkeys(invalid)))
        for name in self.injected:
            if bound is not None and name in bound.given.arguments:
                call.arguments[name] = bound.given.arguments[name]
        return call

    def _fill(self, call: BoundArguments, values: Mapping[str, object]) -> list[str]:
        """Put JSON values into a call as what their annotations ask for, and return the names that do not fit."""
        more: dict[str, object] = {}
        invalid: list[str] = []
        for name, value in values.items():
            parameter = self.signature.parameters.get(name)
            if parameter is None or parameter.kind is Parameter.VAR_KEYWORD:
                if self._keywords is None:
                    invalid.append(name)
                    continue
                parameter = self.signature.parameters[self._keywords]
            if name in self._defaults and type(parameter.default) in _FILLED and value == self._defaults[name][0]:
                # The very default that the function may fill.
                continue
            try:
                made = _value(parameter, value)
            except NotOfType:
                invalid.append(name)
                continue
            if parameter.kind is Parameter.VAR_KEYWORD:
                more[name] = made
            else:
                call.arguments[name] = made
        if more and self._keywords is not None:
            call.arguments[self._keywords] = more
        return [*invalid, *(name for name in self.required if name not in values)]


def _by_keyword(call: BoundArguments) -> tuple[tuple[object, ...], dict[str, object]]:
    """Return how a call is made, by keyword where that is possible, as every loop over a model's JSON makes it.

    A decorator that takes keywords alone shows the signature of the function below it.
    """
    parameters = call.signature.parameters
    rest = next((p.name for p in parameters.values() if p.kind is Parameter.VAR_POSITIONAL), None)
    if rest is not None and call.arguments.get(rest):
        return call.args, call.kwargs
    args: list[object] = []
    kwargs: dict[str, object] = {}
    values = cast("dict[str, object]", call.arguments)
    for name, parameter in parameters.items():
        if parameter.kind is Parameter.POSITIONAL_ONLY:
            if name in values or parameter.default is not Parameter.empty:
                args.append(values.get(name, parameter.default))
        elif name in values and parameter.kind is Parameter.VAR_KEYWORD:
            kwargs.update(cast("dict[str, object]", values[name]))
        elif name in values and parameter.kind is not Parameter.VAR_POSITIONAL:
            kwargs[name] = values[name]
    return tuple(args), kwargs


def _said(parameter: Parameter) -> tuple[object] | None:
    """Return what a parameter's default says in JSON, or None where it says nothing."""
    if parameter.default is Parameter.empty:
        return None
    try:
        return (plain(parameter.default, parameter.name),)
    except NotJson:
        return None


def _value(parameter: Parameter, value: object) -> object:
    annotation: object = parameter.annotation
    if parameter.kind is Parameter.VAR_POSITIONAL:
        members = cast("Sequence[object]", value) if isinstance(value, (list, tuple)) else (value,)
        return tuple(member if annotation is Parameter.empty else rebuild(member, annotation) for member in members)
    if annotation is Parameter.empty:
        return value
    if value is None and parameter.default is None:
        return None
    return rebuild(value, annotation)


def _invalid(names: tuple[str, ...]) -> Refused:
    return Refused(
        "INPUT_INVALID",
        recovery="repair_input",
        executed="no",
        outcome="invalid",
        invalid_fields=[{"name": name, "rule": "invalid"} for name in names],
    )


def _same(bound: Bound, decided: Mapping[str, object], function: Function) -> bool:
    """Say whether the caller's objects still are, to the letter, what was decided about."""
    if bound.is_simple:
        held = bound.arguments
        return held.keys() == decided.keys() and all(
            type(value) is type(decided[name]) and value == decided[name] for name, value in held.items()
        )
    try:
        # The objects may have changed since they were turned into JSON (a wait, another thread).
        now = function.arguments_of(bound.given)
    except UsageError:
        return False
    return canonical(now) == canonical(decided)


# ---- looking at callables -------------------------------------------------------------------------------------------


def _under_partials(fn: Callable[..., object]) -> Callable[..., object]:
    found: Callable[..., object] = fn
    while isinstance(found, functools.partial):
        found = cast("Callable[..., object]", found.func)
    return found


def _name(core: Callable[..., object]) -> str:
    """Return the name of a function, or of a callable object's class."""
    named = hasattr(core, "__name__") or getattr(core, "name", None)
    return name_of(core if named else type(core))


def _check_kind(fn: Callable[..., object], form: object, name: str) -> None:
    if inspect.isclass(form):
        raise UsageError(f"tool {name!r}: is a class; govern a function or a method")
    if inspect.isgeneratorfunction(form) or inspect.isasyncgenfunction(form):
        raise UsageError(
            f"tool {name!r}: is a generator, whose effects happen after it was taken for done; "
            "return a list, or govern the function that it calls"
        )
    if getattr(fn, MARK, None) is not None:
        raise UsageError(f"tool {name!r}: is governed already")


def _check_retries(fn: Callable[..., object], name: str) -> None:
    package = retrying_library(fn)
    if package is not None:
        raise ConfigError(
            f"tool {name!r}: retries inside ({package}), which multiplies attempts; take the decorator off"
        )


def _resolved_signature(fn: Callable[..., object], form: object, name: str) -> Signature:
    """Return the signature with annotations that are objects, as far as they can be resolved."""
    with suppress(Exception):  # evaluating annotations runs the author's code
        return inspect.signature(fn, eval_str=True)
    try:
        found = inspect.signature(fn)
    except (TypeError, ValueError):
        raise UsageError(f"tool {name!r}: has no signature that Python can read; wrap it in a function") from None
    inner = inspect.unwrap(cast("Callable[..., object]", form))
    names = cast("dict[str, object]", getattr(inner, "__globals__", {}))

    def resolved(annotation: object) -> object:
        if not isinstance(annotation, str):
            return annotation
        try:
            return cast("object", eval(annotation, names))  # noqa: S307 - the author's own annotation, as typing does it
        except Exception:  # noqa: BLE001 - a name that only type checkers see stays a string
            return annotation

    parameters = [p.replace(annotation=resolved(p.annotation)) for p in found.parameters.values()]
    return found.replace(parameters=parameters, return_annotation=resolved(found.return_annotation))
