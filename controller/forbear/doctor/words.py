"""Words that say what a tool may do, and how names are split. They make guesses for a person to confirm, never decisions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

READS: Final = frozenset(
    "get find list search read fetch query lookup look show describe count check view download preview summarize "
    "summarise compare calculate compute estimate validate inspect browse retrieve load peek poll watch monitor scan "
    "explain status analyze analyse head stat grep ls cat whoami ping quote track verify select resolve recall "
    "forecast translate classify extract".split()
)
# Verbs of one line have one meaning: two tools that do it to the same thing look like aliases.
FAMILIES: Final = tuple(
    frozenset(line.split())
    for line in (
        "place submit create make new open buy book insert register issue",
        "delete remove cancel drop destroy erase purge unset clear void",
        "update edit modify change replace patch set alter amend adjust",
        "send post notify message email mail publish reply",
        "transfer pay withdraw wire payout refund charge",
        "run execute exec invoke",
        "start launch trigger",
        "stop kill terminate halt",
    )
)
WRITES: Final = frozenset(
    "sell request add put write append upload deploy restart approve reject assign unassign close merge commit push "
    "invite share unshare grant revoke enable disable reset archive restore move copy rename rebalance schedule "
    "reschedule subscribe unsubscribe order purchase bulk import install uninstall lock unlock mark save store sync "
    "rotate release scale freeze unfreeze reserve confirm accept decline join leave upsert bid trade ban mute call tag "
    "label comment react claim complete finish submit undo redo apply rollback migrate provision ship".split()
).union(*FAMILIES)
# Nouns at a name's end that say "this is looked at" where no verb is known: desk_status, account_balance.
LOOKED_AT: Final = frozenset(
    "status info details detail balance history summary report list count quote price weather forecast version health "
    "metrics stats statistics time date".split()
)
FILLER: Final = frozenset(
    "a an the of to for in on at by with from and or its this that one my your into as is".split()
)

# Arguments that name the thing acted on, best first; "*_id" comes before all of them.
TARGETS: Final = (
    "id symbol ticker isin account account_id path file filename file_path url email to recipient destination user "
    "username repository repo branch channel ticket issue key name host table bucket customer project resource address "
    "phone number"
).split()
# Arguments that carry a key of the caller's; an upstream may promise to accept each only once.
KEYS: Final = frozenset(
    "idempotency_key client_reference client_order_id request_id dedup_key dedupe_key transaction_id "
    "client_request_id client_token external_id reference".split()
)
# Arguments that often do not change what is done.
NOTES: Final = frozenset("note notes memo comment trace_id reason rationale thought explanation".split())


def words_of(name: str) -> list[str]:
    """Return the words of a name in lower case: snake_case, kebab-case, dots and camelCase are split."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return [word.lower() for word in re.split(r"[^A-Za-z0-9]+", spaced) if word]


def singular(word: str) -> str:
    """Return a noun without its plural s; a rough rule for comparing, never shown."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def nouns(words: Iterable[str]) -> frozenset[str]:
    """Return the words that say what something is about."""
    return frozenset(singular(word) for word in words if word not in FILLER)


def first_sentence(text: str) -> list[str]:
    """Return the words of a description's first sentence, without what is in brackets."""
    plain = re.sub(r"\([^)]*\)", " ", text.strip())
    return words_of(re.split(r"[.!?:;\n](?:\s|$)|\n", plain, maxsplit=1)[0])


def family_of(verb: str) -> frozenset[str]:
    """Return the verbs that mean the same."""
    return next((family for family in FAMILIES if verb in family), frozenset({verb}))
