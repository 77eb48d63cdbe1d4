"""What a loop does after a pass: whether time alone may heal what is left."""

from reconciler.errors import Interrupted
from reconciler.loop.cluster_loop import Turn
from reconciler.quota.outcome import Applied, Rejected
from reconciler.quota.report import Outcome, Pass, Seen


def turn_of(made: Pass) -> Turn:
    """Whether the pass is tried again soon, and what stands in the log beside the waiting time.

    What a guard withholds, what the broker refuses, and what is held because of either waits for a message or the
    resync: to try again changes nothing.
    """
    error = made.error
    if isinstance(error, Interrupted):
        return Turn()
    if error is not None:
        hint = f"; {error.hint}" if error.hint and not error.retriable else ""
        return Turn(retry=error.retriable, note=f"{error}{hint}")
    note = "" if made.outcome is None or made.outcome.complete else _unfinished(made, made.outcome)
    return Turn(retry=bool(note), note=note, confirm=needs_confirmation(made))


def needs_confirmation(made: Pass) -> bool:
    """Whether the pass observed drift that has to be observed again before it counts."""
    return made.error is None and not all(one.confirmed for one in made.sightings)


def _unfinished(made: Pass, outcome: Outcome) -> str:
    """What may look different in a moment, in words; "" = nothing."""
    unknown = outcome.count("UNKNOWN") + outcome.count("NOT SENT")
    unseen = sum(isinstance(one.result, Applied) and one.seen in {Seen.NOT_YET, Seen.UNCHECKED}
                 for one in outcome.pairs)  # fmt: skip
    refused = bool(made.withheld) or any(isinstance(one.result, Rejected) for one in outcome.pairs)
    held = 0 if refused else outcome.count("HELD")
    words = [
        f"{count} {what}"
        for count, what in (
            (unknown, "of unknown fate or not sent"),
            (unseen, "not yet visible on every broker"),
            (held, "held"),
        )
        if count
    ]
    if outcome.failure:
        words.append(outcome.failure)
    if not outcome.recorded and not outcome.failure:
        words.append("the records could not be written")
    return ", ".join(words)
