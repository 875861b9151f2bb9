"""A small agent process that is killed: it makes one call of each kind and then hangs inside a running write."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from forbear import Controller, Refused

LATER = Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=30)


def declare(controller: Controller) -> None:
    """Declare what both the killed process and its successor use."""
    controller.declare("send", effect="write", target="to")
    controller.declare("pay", effect="write", target="to", approval="always")
    controller.declare("ship", effect="write", target="to")
    controller.declare("post", effect="write", target="to", inspect={"tool": "find", "applied_if": "non_empty"})
    controller.declare("find", effect="read", input_fields=["to"])


def main(path: str, received: str) -> None:
    """Leave a pending retry, an open approval, a hold and a running write behind."""
    log = Path(received)

    def note(name: str) -> None:
        with log.open("a", encoding="utf-8") as file:
            file.write(name + "\n")

    def refuse(error: Refused, name: str) -> Any:
        def tool(**_: object) -> object:
            note(name)
            raise error

        return tool

    def hang(**_: object) -> object:
        note("post")
        print("ready", flush=True)
        sys.stdin.read()
        return None

    controller = Controller.open(path, worker=False)
    declare(controller)
    controller.call("send", {"to": "a"}, run="r", step="1", call_id="1", execute=refuse(LATER, "send"))
    controller.call("pay", {"to": "b"}, run="r", step="2", call_id="2", execute=refuse(LATER, "pay"))
    refused = Refused("DESK_FROZEN", recovery="do_not_retry")
    controller.call("ship", {"to": "c"}, run="r", step="3", call_id="3", execute=refuse(refused, "ship"))
    controller.call("post", {"to": "d"}, run="r", step="4", call_id="4", execute=hang)


if __name__ == "__main__":
    main(*sys.argv[1:])
