"""The one table from the reasons that journey vectors name to the product's own words. Generous in naming, strict in meaning.

A reason is met by a decision that carries one of its words: a code of the catalogue, a rule, a recovery class, an
outcome, or the cause of the hold. A reason that the table does not know is met only by a word that is spelt like it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

__all__ = ["SCOPES", "is_known", "is_met", "normal"]

# reason -> words; all lower case. A line may serve several spellings of one idea.
_TABLE: Final = """
outcome_unknown unknown_outcome result_unknown unknown in_doubt may_have_happened may_have_executed not_acknowledged
    : outcome_unknown still_running held:unknown inspect_outcome
interrupted timed_out timeout deadline deadline_exceeded process_lost worker_lost restart crashed lost_result
    : running.cancelled.unknown running.lost.write running.lost.read running.cancelled.nothing_landed outcome_unknown
      cancelled inspect_outcome
accepted_pending accepted accepted_not_finished still_running : outcome_unknown still_running accepted_pending pending
partial partial_success partial_effects effects_before_failure partially_applied
    : partial partial_success outcome_unknown inspect_outcome
user_denied denied denied_by_user human_denied rejected rejected_by_user operator_denied declined user_declined
    : user_denied held:denial
policy_denied denied_by_policy policy denied_by_rule rule_denied forbidden_by_policy : policy_denied
checker_unavailable checker_down checker_failed policy_unavailable rule_unavailable : checker_unavailable
no_approver nobody_to_ask headless : no_approver
approval_required needs_approval not_the_approved_call not_approved approval_needed request_approval gate
    reapproval_required prompt_open awaiting_approval edited_into_another_tool new_call
    : approval_required start.gate.asked awaiting_approval.proposed.same_prompt request_approval
approval_expired expired approval_timeout prompt_expired superseded_by_message superseded_by_user_message implicit_close
    : approval_expired approval_closed
superseded superseded_by_human superseded_by_edit edited_by_human edited replaced_by_human : superseded
changes_requested : changes_requested
prompts_exhausted too_many_prompts approval_fatigue : prompts_exhausted
do_not_retry refused permanent permission_denied access_denied forbidden insufficient_scope unauthorized auth_failed
    not_authorized : do_not_retry held:refusal
vault_locked : vault_locked
use_alternative alternative_available alternative : use_alternative
repair_input invalid_input input_invalid validation validation_failed invalid_arguments same_input missing_fields
    missing_argument missing_required same_args_refused bad_input unrepaired
    : repair_input input_invalid tool_error conflict not_found held:repair
input_truncated truncated truncated_input truncated_call finish_reason_length args_repaired untrusted_arguments
    repaired_json untrustworthy_input repaired_arguments : input_truncated input_invalid
precondition_open precondition read_first precondition_required : precondition_open held:precondition
conflict not_ours foreign_object : conflict
not_found : not_found
retry_after rate_limited throttled temporary transient not_sent connect_failed never_accepted not_accepted
    : retry_after rate_limited quota_exhausted temporary_failure not_sent waiting limit_not_over
quota_scope_closed quota_closed scope_closed waiting_for_quota shared_wait
    : held:time start.held.time_parked start.held.time_no_slot
quota_exhausted limit_exhausted daily_limit
    : quota_exhausted wait_exceeds_limit retry_exhausted rate_limited start.held.time_too_far
wait_exceeds_limit wait_too_long exceeds_max_wait retry_too_far : wait_exceeds_limit retry_too_far start.held.time_too_far
no_reset_given unknown_reset reset_unknown : no_reset_given
retry_exhausted retries_exhausted exhausted max_retries : retry_exhausted
poll_interval poll_too_early too_early min_interval : poll_interval completed.proposed.poll_too_early
empty_unconfirmed empty_may_be_throttle second_look maybe_throttled empty_unknown
    : empty_unconfirmed running.returned.empty_second_look
could_not_search search_unavailable not_confirmed_empty : could_not_search
unattended offered_again human_turn_since : offered_again waiting.woke.unattended
budget_exhausted budget limit_reached call_limit max_calls : budget_exhausted
no_progress same_result repeated_result loop : no_progress
repairs_exhausted max_repairs : repairs_exhausted held:exhausted
refusals_exhausted max_refusals : refusals_exhausted held:exhausted
duplicate_in_flight in_flight already_running duplicate running still_in_progress : duplicate_in_flight still_running
cancelled user_cancelled canceled cancelled_nothing_applied nothing_landed cancelled_by_user not_started : cancelled
run_halted halted waiting_halt blocked_steps : run_halted blocked waiting
already_satisfied already_done already_exists already_true : already_satisfied
no_matches empty nothing_found : no_matches empty
result_not_kept : result_not_kept
duplicate_in_batch duplicate_call shared shared_result same_step same_batch repeat repeated suppressed recorded
    already_completed same_turn_repeat already_executed replayed replay
    : completed.proposed.delivered completed.proposed.same_step completed.proposed.replayed
      completed.proposed.poll_finished completed.proposed.restarted_run running.proposed.same_step
      any.proposed.known_delivered any.proposed.known_joined already_satisfied
approval_spent already_answered answered_before approval_consumed already_decided stale_answer : approval_spent
    approval_expired
edited_by_person changed_by_person : superseded
not_applied verified_absent absent nothing_applied : not_applied
"""

# scope words of the vectors -> scopes of holds; `action` also stands for a hold on the target that names the fields.
SCOPES: Final[Mapping[str, frozenset[str]]] = {
    "same_args": frozenset({"action", "fields"}),
    "action": frozenset({"action", "fields"}),
    "same_args_until_precondition": frozenset({"precondition"}),
    "target": frozenset({"target", "fields"}),
    "same_target": frozenset({"target", "fields"}),
    "operation": frozenset({"operation"}),
    "tool": frozenset({"operation"}),
    "quota": frozenset({"quota"}),
    "quota_scope": frozenset({"quota"}),
    "turn": frozenset({"turn"}),
    "run": frozenset({"run", "turn"}),
    "principal": frozenset({"principal"}),
}


def normal(word: str) -> str:
    """Return a word in the table's spelling."""
    return "_".join(word.strip().lower().replace("-", "_").split())


def _read(table: str) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    entry = ""
    for line in [*table.strip().splitlines(), "end : end"]:
        # A line that is indented goes on with the entry before it.
        if line.startswith(" "):
            entry += line
            continue
        if entry:
            reasons, _, words = entry.partition(" : ")
            for reason in reasons.split():
                found[reason] = frozenset(words.split())
        entry = line
    return found


_WORDS: Final = _read(_TABLE)


def is_known(reason: str) -> bool:
    """Say whether the table knows a reason."""
    return normal(reason) in _WORDS


def is_met(reason: str, words: Iterable[str]) -> bool:
    """Say whether a decision that carries these words has the reason that a vector names."""
    carried = {normal(word) for word in words}
    wanted = normal(reason)
    return wanted in carried or not carried.isdisjoint(_WORDS.get(wanted, frozenset()))
