"""Send the upstream's idempotency key as a header field. The controller makes the key; nothing is decided here."""

from __future__ import annotations

import inspect
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Final, cast

from forbear.contract import current_trail
from forbear.errors import ConfigError

__all__ = ["keyed"]

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}", re.ASCII)
# Keys of executions that did not send theirs; the oldest are forgotten.
_MAX_UNSENT: Final = 1024

Executor = Callable[..., object]


def keyed(
    executor: Executor, *, argument: str, header: str = "Idempotency-Key", quoted: bool = False
) -> Executor:  # fmt: skip
    """Return an executor that takes the key out of its arguments and sends it with the tool's request.

    The policy says ``idempotency_key = "ARGUMENT"``; the tool's client is one of this package. The key goes with the
    first request of the execution that may change something, and with repeats of that request. A key that did not go
    out is not used a second time: the upstream would not recognise the repetition.

    Args:
        executor: The tool; it does not see the argument.
        argument: The policy's name for the key.
        header: The field that the upstream reads.
        quoted: Send it as a quoted string, as the Idempotency-Key draft has it; most services want it bare.

    Raises:
        ConfigError: the field's name is none.
    """
    if _NAME.fullmatch(header) is None:
        raise ConfigError("keyed: 'header' must be the name of a header field")
    unsent: OrderedDict[str, None] = OrderedDict()

    def begin(arguments: dict[str, object]) -> str:
        key = arguments.pop(argument, None)
        if not isinstance(key, str):
            raise ConfigError(f"keyed: argument {argument!r} must be the policy's idempotency_key")
        if key in unsent:
            raise ConfigError(f"keyed: the key did not go out with the first request, {header!r} would protect nothing")
        trail = current_trail()
        if trail is not None:
            trail.key = (header, f'"{key}"' if quoted else key)
        return key

    def end(key: str) -> None:
        trail = current_trail()
        if trail is None or not trail.key_sent:
            unsent[key] = None
            if len(unsent) > _MAX_UNSENT:
                unsent.popitem(last=False)

    if inspect.iscoroutinefunction(executor):

        @wraps(executor)
        async def arun(**arguments: object) -> object:
            key = begin(arguments)
            try:
                return await cast("Awaitable[object]", executor(**arguments))
            finally:
                end(key)

        return arun

    @wraps(executor)
    def run(**arguments: object) -> object:
        key = begin(arguments)
        try:
            return executor(**arguments)
        finally:
            end(key)

    return run
