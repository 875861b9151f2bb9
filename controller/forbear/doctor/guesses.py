"""Propose labels for tools from their names, schemas and hints. Every proposal carries its reason and is a guess.

A guess that would loosen something (a read) is only *active* where two independent signs agree; else the author has to
confirm it. What a label means and whether a policy is right is not decided here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forbear.core.vocabulary import Effect
from forbear.doctor.seen import FoundTool
from forbear.doctor.words import (
    FAMILIES,
    KEYS,
    LOOKED_AT,
    NOTES,
    READS,
    TARGETS,
    WRITES,
    family_of,
    first_sentence,
    nouns,
    words_of,
)

__all__ = ["Guess", "Proposal", "propose"]

# How much of two descriptions' first sentences must be equal for tools to look like aliases.
_ALIKE = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """One proposed value of a policy field, and why."""

    field: str
    # As TOML has it: text, a list of texts, or a table.
    value: object
    reason: str
    # False = written as a comment: it would loosen something, or only its author can know.
    active: bool = True
    # True = it was seen and is no guess.
    is_seen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What is proposed for one tool."""

    tool: FoundTool
    guesses: tuple[Guess, ...]

    def value(self, field: str, *, confirmed: bool = False) -> object:
        """Return the proposed value of a field, or None; `confirmed` counts the guesses that wait for confirmation."""
        return next((one.value for one in self.guesses if one.field == field and (one.active or confirmed)), None)

    @property
    def effect(self) -> Effect:
        """Return what the tool is thought to do, active or not."""
        found = self.value("effect", confirmed=True)
        return Effect(found) if isinstance(found, str) else Effect.UNDECLARED


def propose(tools: Sequence[FoundTool]) -> list[Proposal]:
    """Propose labels for the tools of one project, in their order."""
    effects = {tool.name: guess_effect(tool) for tool in tools}
    writes = [tool for tool in tools if _thought(effects[tool.name]) is not Effect.READ]
    reads = [tool for tool in tools if _thought(effects[tool.name]) is Effect.READ]
    families = alias_families(writes)
    operations = {name: label for label, members in families.items() for name in members}
    targets = {tool.name: guess_target(tool) for tool in writes}
    proposals: list[Proposal] = []
    for tool in tools:
        guesses: list[Guess] = [] if effects[tool.name] is None else [_present(effects[tool.name])]
        if tool.remote:
            guesses.append(Guess(field="trust", value="remote", reason="it belongs to an MCP server", is_seen=True))
        if tool in writes:
            members = families.get(operations.get(tool.name, ""), ())
            guesses += _of_a_write(tool, operations.get(tool.name), members, targets, reads, effects)
        proposals.append(Proposal(tool=tool, guesses=tuple(guesses)))
    return proposals


def _present(guess: Guess | None) -> Guess:
    assert guess is not None
    return guess


def _thought(guess: Guess | None) -> Effect:
    return Effect.UNDECLARED if guess is None else Effect(str(guess.value))


# ---- effect ---------------------------------------------------------------------------------------------------------


def guess_effect(tool: FoundTool) -> Guess | None:
    """Guess whether a tool reads or writes; None = no sign, and it stays undeclared, which is the careful treatment."""
    by_name, why = _effect_by_words(tool)
    hint = _effect_by_hint(tool)
    if hint is Effect.WRITE and by_name is Effect.READ:
        # The protocol's default for a missing hint is the same as the hint, so that some servers send it for reads.
        return Guess(field="effect", value="read", active=False, reason=f"{why}, but the server does not say read-only")
    if hint is Effect.WRITE or by_name is Effect.WRITE:
        says = [why] if by_name is Effect.WRITE else []
        says += ["the server does not say read-only"] if hint is Effect.WRITE else []
        says += ["although the server says read-only"] if hint is Effect.READ else []
        return Guess(field="effect", value="write", reason=", ".join(says))
    if hint is Effect.READ and by_name is Effect.READ:
        return Guess(field="effect", value="read", reason=f"{why}, and the server says read-only")
    if hint is Effect.READ:
        return Guess(field="effect", value="read", active=False, reason="only the server says read-only; confirm it")
    if by_name is Effect.READ:
        return Guess(field="effect", value="read", active=False, reason=f"only {why}; confirm it")
    return None


def _effect_by_hint(tool: FoundTool) -> Effect | None:
    if tool.read_only is None:
        return Effect.WRITE if tool.destructive else None
    return Effect.READ if tool.read_only else Effect.WRITE


def _effect_by_words(tool: FoundTool) -> tuple[Effect | None, str]:
    words = words_of(tool.name)
    for place, word in enumerate(words):
        # The first verb counts, also after a server's prefix: github_create_issue.
        if word in WRITES:
            return Effect.WRITE, f"the verb {word!r} of its name"
        if word in READS and (place == 0 or word not in LOOKED_AT):
            return Effect.READ, f"the verb {word!r} of its name"
    if words and words[-1] in LOOKED_AT:
        return Effect.READ, f"its name ends in {words[-1]!r}"
    said = first_sentence(tool.description)[:1]
    verb = "".join(said)
    for form in (verb, verb.removesuffix("s"), verb.removesuffix("es")):
        if form in WRITES:
            return Effect.WRITE, f"the verb {form!r} of its description"
        if form in READS:
            return Effect.READ, f"the verb {form!r} of its description"
    return None, ""


# ---- aliases --------------------------------------------------------------------------------------------------------


def alias_families(tools: Sequence[FoundTool]) -> dict[str, tuple[str, ...]]:
    """Return groups of tools that look like names for one operation: label -> tool names, two or more each."""
    groups: list[list[FoundTool]] = []
    for tool in tools:
        for group in groups:
            if any(_alike(tool, other) for other in group):
                group.append(tool)
                break
        else:
            groups.append([tool])
    return {_label(group[0]): tuple(tool.name for tool in group) for group in groups if len(group) > 1}


def _alike(one: FoundTool, other: FoundTool) -> bool:
    first, second = _verb_and_things(words_of(one.name)), _verb_and_things(words_of(other.name))
    if first is not None and second is not None and first[1] and first[1] == second[1] and _same_verb(first, second):
        return True
    said, says = first_sentence(one.description), first_sentence(other.description)
    if len(said) < 2 or len(says) < 2 or said[0] != says[0] or said[0] not in WRITES:
        return False
    left, right = nouns(said), nouns(says)
    shared = len(left & right)
    # The same verb alone ("Cancel.") says nothing; a common thing has to come with it, and a common argument.
    return shared > 1 and shared / len(left | right) >= _ALIKE and bool(set(one.properties) & set(other.properties))


def _same_verb(one: tuple[str, frozenset[str]], other: tuple[str, frozenset[str]]) -> bool:
    return other[0] in family_of(one[0])


def _verb_and_things(words: Sequence[str]) -> tuple[str, frozenset[str]] | None:
    verb = next((word for word in words if word in WRITES), None)
    return None if verb is None else (verb, nouns(word for word in words if word != verb))


def _label(tool: FoundTool) -> str:
    words = words_of(tool.name)
    found = _verb_and_things(words)
    if found is None or not found[1]:
        return tool.name
    things = "_".join(word for word in words if word != found[0] and word not in ("a", "to", "the"))
    return f"{things}.{found[0]}"


# ---- targets and look-ups -------------------------------------------------------------------------------------------


def guess_target(tool: FoundTool) -> str | None:
    """Return the argument that most likely names the thing acted on, or None."""
    names = [name for name in tool.properties if name.lower() not in KEYS]
    needed = [name for name in tool.required if name in names]
    for candidates in (needed, names):
        for name in candidates:
            if name.lower().endswith(("_id", "_ids")) or (name.endswith("Id") and len(name) > 2):
                return name
        for wanted in TARGETS:
            found = next((name for name in candidates if "_".join(words_of(name)) == wanted), None)
            if found is not None:
                return found
    return None


def inspections(write: FoundTool, reads: Sequence[FoundTool]) -> list[tuple[FoundTool, bool]]:
    """Return the reads that may show whether a write happened, best first, and whether the write has all they need."""
    about = _things(write)
    found: list[tuple[int, int, FoundTool, bool]] = []
    for place, read in enumerate(reads):
        if not about & _things(read):
            continue
        shared = [name for name in read.properties if name in write.properties]
        enough = bool(shared) and all(name in write.properties for name in read.required)
        # A look by what the write itself sent is best; a list of everything is better than a look that lacks a value.
        rank = 0 if enough else 1 if not read.required else 2
        if enough and words_of(read.name)[0] not in ("find", "search", "lookup", "get"):
            rank = 1
        found.append((rank, place, read, enough))
    return [(read, enough) for _, _, read, enough in sorted(found, key=lambda one: one[:2])]


def _things(tool: FoundTool) -> frozenset[str]:
    words = words_of(tool.name)
    # "order" is a verb only where a name begins with it.
    verbs = READS | LOOKED_AT | (WRITES if words[:1] == ["order"] else WRITES - {"order"})
    return nouns(word for word in words if word not in verbs)


def _of_a_write(
    tool: FoundTool,
    operation: str | None,
    members: Sequence[str],
    targets: Mapping[str, str | None],
    reads: Sequence[FoundTool],
    effects: Mapping[str, Guess | None],
) -> list[Guess]:
    guesses: list[Guess] = []
    if operation is not None:
        others = " and ".join(name for name in members if name != tool.name)
        guesses.append(Guess(field="operation", value=operation, reason=f"it looks like another name for {others}"))
    target = targets[tool.name]
    if target is not None:
        # Aliases that name the same thing by other arguments are matched under the first one's word.
        first = targets.get(members[0]) if members else target
        value: object = target if first in (None, target) else {str(first): target}
        guesses.append(
            Guess(field="target", value=value, reason=f"the argument {target!r} seems to name what is acted on")
        )
    guesses += _inspection(tool, members, reads, effects)
    for name in tool.properties:
        if name.lower() in KEYS:
            why = "only if the upstream promises to accept each value once"
            guesses.append(Guess(field="idempotency_key", value={"argument": name}, reason=why, active=False))
    ignored = [name for name in tool.properties if name.lower() in NOTES]
    if ignored:
        why = "only if they do not change what is done"
        guesses.append(Guess(field="ignore", value=ignored, reason=why, active=False))
    return guesses


def _inspection(
    tool: FoundTool, members: Sequence[str], reads: Sequence[FoundTool], effects: Mapping[str, Guess | None]
) -> list[Guess]:
    found = inspections(tool, reads)
    for name in members:
        # An alias is looked up as the tool that it stands for, by the arguments that it has itself.
        found = found or inspections(_named(tool, name), reads)
    if not found:
        return []
    read, enough = found[0]
    known = effects[read.name]
    active = enough and known is not None and known.active
    shares = [name for name in read.properties if name in tool.properties]
    why = f"{read.name} takes its {' and '.join(shares)}" if enough else f"{read.name} is about the same thing"
    why += "" if enough else "; say how its arguments come from the write"
    guesses = [Guess(field="inspect", value={"tool": read.name}, reason=f"{why}; it cannot tell yet", active=active)]
    if enough and words_of(read.name)[0] in ("find", "search", "list"):
        verdict = {"tool": read.name, "applied_if": "non_empty"}
        why = "if what it finds proves that the write happened, in place of the line above"
        guesses.append(Guess(field="inspect", value=verdict, reason=why, active=False))
    return guesses


def _named(tool: FoundTool, name: str) -> FoundTool:
    return FoundTool(name=name, kind=tool.kind, input_schema=tool.input_schema)


assert all(family <= WRITES for family in FAMILIES), "a verb with a family is a write"
