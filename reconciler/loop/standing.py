"""What a pass says to a log: what happened, and what stands as it should not, each once and not at every pass."""

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from reconciler.quota.outcome import Held, Rejected, Unknown
from reconciler.quota.report import Outcome, Pass
from reconciler.render.names import entity_text, escaped
from reconciler.render.units import quantity

_LOG: Final = logging.getLogger("reconciler.loop")

MOST_LINES: Final = 20
"""Of one kind in one pass; the rest is counted."""


class Standing:
    """What stood after the last pass of one cluster, so that only news is logged.

    Args:
        cluster: Its name.
    """

    def __init__(self, cluster: str) -> None:
        self._cluster = escaped(cluster)
        self._before: frozenset[str] = frozenset()

    def tell(self, made: Pass) -> None:
        """Log what the pass did, and what is new of what stands."""
        if made.outcome is not None and made.outcome.pairs:
            _LOG.info("%s: %s", self._cluster, _done(made.outcome))
        if made.preview is None:
            return  # Nothing was seen, so nothing is known to be over.
        now = list(_standing(made))
        for line in now:
            if line not in self._before:
                _LOG.warning("%s: %s", self._cluster, line)
        if self._before and not now and made.error is None:
            _LOG.info("%s: in order again", self._cluster)
        self._before = frozenset(now)


def _done(outcome: Outcome) -> str:
    counts = [
        f"{outcome.count(word)} {word.lower()}"
        for word in ("APPLIED", "REJECTED", "HELD", "UNKNOWN", "NOT SENT")
        if outcome.count(word)
    ]
    commit = f" for {outcome.origin.commit[:12]}" if outcome.origin.commit else ""
    return ", ".join(counts) + commit


def _standing(made: Pass) -> Iterator[str]:
    if made.preview is not None:
        yield from (escaped(one) for one in made.preview.warnings)
        doubts = (f"{one.place}: {one.message}" for one in made.preview.advice)
        yield from _cut((escaped(one) for one in doubts), "doubtful rules")
    yield from _cut(_withheld(made), "withheld")
    yield from _cut(_drifted(made), "drifted")
    if made.outcome is not None:
        yield from _cut(_refused(made.outcome), "not applied")


def _withheld(made: Pass) -> Iterator[str]:
    for one in made.withheld:
        pair = f"{entity_text(one.change.entity)} {one.change.key}"
        for violation in one.violations:
            yield f"withheld: {pair}: {escaped(violation.message)} (allowed by {violation.allow_with})"


def _drifted(made: Pass) -> Iterator[str]:
    for one in made.sightings:
        pair = f"{entity_text(one.entity)} {one.key}"
        found = f"{quantity(one.key, one.live)} instead of {quantity(one.key, one.expected)}"
        if one.fought:
            values = ", ".join(quantity(one.key, value) for value in one.overwritten)
            yield (
                f"somebody fights us over {pair}: {found}; {one.corrections} corrections of {values} were"
                " undone, so it is left alone until the window passes or its document changes"
            )
        elif one.corrected_at and one.corrected_at[-1] >= made.started_at:
            yield f"drift corrected: {pair} was {found}"
        elif one.confirmed:
            yield f"drift: {pair} is {found}"


def _refused(outcome: Outcome) -> Iterator[str]:
    for one in outcome.pairs:
        pair = f"{entity_text(one.change.entity)} {one.change.key}"
        match one.result:
            case Rejected(name=name, message=message):
                yield f"rejected: {pair}: {name}: {escaped(message)}"
            case Held():
                yield f"held: {pair}: it waits for another change"
            case Unknown(why=why):
                yield f"unknown: {pair}: {escaped(why)}"
            case _:
                pass


def _cut(lines: Iterable[str], what: str) -> Iterator[str]:
    every = list(lines)
    yield from every[:MOST_LINES]
    if len(every) > MOST_LINES:
        yield f"and {len(every) - MOST_LINES} more {what}"
