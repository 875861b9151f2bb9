"""Looking ahead in a story: what a runner has to know before it plays the framework's and the process's part. Runs nothing."""

from __future__ import annotations

from forbear.testing.journey_format import Call, Control, Human, Journey, Result

__all__ = ["crashes_before_start", "is_lost", "is_reproposed", "step_to_rerun"]


def is_reproposed(story: Journey, call: str) -> bool:
    """Say whether the framework proposes an approved call again: a resume follows the yes before any result."""
    approved = False
    for _, event in story.events:
        if isinstance(event, Human) and event.about == call and event.decision in ("approve", "edit"):
            approved = True
        elif isinstance(event, Result) and event.call == call:
            return False
        elif approved and isinstance(event, Control) and event.kind == "resume":
            return True
    return False


def is_lost(story: Journey, index: int, what: str) -> bool:
    """Say whether the next crash of the story loses what happens now."""
    for _, event in story.events[index + 1 :]:
        if isinstance(event, Control) and event.kind == "crash_restart":
            return what in event.lost
    return False


def crashes_before_start(story: Journey, index: int, call: str) -> bool:
    """Say whether the story's process dies after the answer and before the start that it allows."""
    for _, event in story.events[index + 1 :]:
        if isinstance(event, Control) and event.kind == "crash_restart":
            return not any("dispatch" in item or "started" in item for item in event.persisted)
        if isinstance(event, Result) and event.call == call:
            return False
    return False


def step_to_rerun(story: Journey, index: int, event: Control) -> list[Call]:
    """Return the calls of the step that runs again, where the story does not list them one by one afterwards."""
    before = [one for _, one in story.events[:index] if isinstance(one, Call)]
    after = [one for _, one in story.events[index + 1 :]]
    if not before:
        return []
    last = before[-1]
    step = [one for one in before if one is last or (last.batch is not None and one.batch == last.batch)]
    tools = {one.tool for one in step}
    # Ids may differ after a resume: calls of these tools that follow are the step's own.
    is_listed = any(isinstance(one, Call) and one.tool in tools for one in after)
    return [] if event.kind == "resume" and is_listed else step
