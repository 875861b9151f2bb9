"""A small agent process: it proposes one gated call and stays alive until its input ends. What becomes ready it prints."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from forbear import Controller, Reply


def say(**facts: object) -> None:
    """Print one line of JSON."""
    print(json.dumps(facts), flush=True)


def ready(reply: Reply) -> None:
    """Print what became of a call outside of it."""
    say(ready=reply.answer, code=reply.envelope.code, outcome=reply.envelope.outcome, value=reply.value)


def main(path: str, received: str) -> None:
    """Propose ``pay``, which a person has to approve, and wait."""

    def pay(to: str, amount: int) -> dict[str, int]:
        with Path(received).open("a", encoding="utf-8") as file:
            file.write(f"{to} {amount}\n")
        return {"paid": amount}

    with Controller.open(path, on_ready=ready) as controller:
        controller.declare("pay", effect="write", target="to", approval="always")
        controller.bind("pay", pay)
        reply = controller.call("pay", {"to": "acct 7", "amount": 25}, run="desk", step="1", call_id="1")
        say(answer=reply.answer, ticket=reply.ticket, request_id=reply.request_id)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
