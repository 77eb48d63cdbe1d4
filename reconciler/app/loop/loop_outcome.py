"""Decides what a loop does after a reconciliation: whether a retry may complete the rest."""

from reconciler.app.loop.cluster_loop import LoopOutcome
from reconciler.errors import Interrupted
from reconciler.quota.outcome import Applied, Rejected
from reconciler.quota.results.report import Outcome, PairVisibility, Reconciliation


def turn_of(reconciliation: Reconciliation) -> LoopOutcome:
    """Return whether the reconciliation is retried soon, and the log message.

    Changes that a guard withholds or the broker refuses, and those held because of them, wait for a key or the
    resync: a retry would not change them.
    """
    error = reconciliation.error
    if isinstance(error, Interrupted):
        return LoopOutcome()
    if error is not None:
        hint = f"; {error.hint}" if error.hint and not error.retriable else ""
        return LoopOutcome(retry=error.retriable, note=f"{error}{hint}")
    note = (
        ""
        if reconciliation.outcome is None or reconciliation.outcome.complete
        else _unfinished(reconciliation, reconciliation.outcome)
    )
    return LoopOutcome(retry=bool(note), note=note, confirm=needs_confirmation(reconciliation))


def needs_confirmation(reconciliation: Reconciliation) -> bool:
    """Whether drift was observed that has to be observed again before it counts."""
    return reconciliation.error is None and not all(
        observation.confirmed for observation in reconciliation.observations
    )


def _unfinished(reconciliation: Reconciliation, outcome: Outcome) -> str:
    """Return in words what a retry may complete; "" = nothing."""
    unknown = outcome.count("UNKNOWN") + outcome.count("NOT SENT")
    unseen = sum(
        isinstance(pair_outcome.result, Applied)
        and pair_outcome.visibility in {PairVisibility.NOT_YET, PairVisibility.UNCHECKED}
        for pair_outcome in outcome.pairs
    )
    is_refused = bool(reconciliation.withheld) or any(
        isinstance(pair_outcome.result, Rejected) for pair_outcome in outcome.pairs
    )
    held_count = 0 if is_refused else outcome.count("HELD")
    words = [
        f"{count} {adjective}"
        for count, adjective in (
            (unknown, "unknown or not sent"),
            (unseen, "not yet visible on every broker"),
            (held_count, "held"),
        )
        if count
    ]
    if outcome.failure:
        words.append(outcome.failure)
    if not outcome.recorded and not outcome.failure:
        words.append("the records could not be written")
    return ", ".join(words)
