"""The log of one loop: each new condition of its cluster once, and what a reconciliation sent."""

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from reconciler.base.escaping import escaped
from reconciler.quota.entity import entity_text
from reconciler.quota.results.report import Outcome, Reconciliation
from reconciler.quota.state import Held, Rejected, Unknown
from reconciler.render.cause_text import status_word, waits_text
from reconciler.render.units import instant, quantity

_LOG: Final = logging.getLogger("reconciler.loop")

MOST_LINES: Final = 20
"""Maximum lines of one kind per reconciliation; the rest is counted."""


class ConditionLog:
    """The conditions after the last reconciliation of one cluster, so that only new ones are logged."""

    def __init__(self, cluster: str) -> None:
        self._cluster = escaped(cluster)
        self._before: frozenset[str] = frozenset()

    def log(self, reconciliation: Reconciliation) -> None:
        """Log the outcome of a reconciliation, and its new conditions."""
        if reconciliation.outcome is not None and reconciliation.outcome.pairs:
            _LOG.info("%s: %s", self._cluster, _outcome_text(reconciliation.outcome))
        if reconciliation.preview is None:
            return  # Without an observation, no condition can be reported as over.
        now = list(_condition_lines(reconciliation))
        for line in now:
            if line not in self._before:
                _LOG.warning("%s: %s", self._cluster, line)
        if self._before and not now and reconciliation.error is None:
            _LOG.info("%s: recovered", self._cluster)
        self._before = frozenset(now)


def _outcome_text(outcome: Outcome) -> str:
    counts = [
        f"{outcome.count(word)} {status_word(word).lower()}"
        for word in ("APPLIED", "REJECTED", "HELD", "UNKNOWN", "NOT SENT")
        if outcome.count(word)
    ]
    commit = f" for {outcome.origin.commit[:12]}" if outcome.origin.commit else ""
    return ", ".join(counts) + commit


def _condition_lines(reconciliation: Reconciliation) -> Iterator[str]:
    if reconciliation.preview is not None:
        yield from (escaped(warning) for warning in reconciliation.preview.warnings)
        warning_texts = (
            f"{advice.place}: {advice.message}" for advice in reconciliation.preview.advice
        )
        yield from _cut((escaped(warning_text) for warning_text in warning_texts), "doubtful rules")
    yield from _cut(_withheld_lines(reconciliation), "not made")
    yield from _cut(_drift_lines(reconciliation), "drifted")
    yield from _cut(_expired_lines(reconciliation), "with the value of an override that has ended")
    if reconciliation.outcome is not None:
        yield from _cut(_failure_lines(reconciliation.outcome), "not applied")


def _withheld_lines(reconciliation: Reconciliation) -> Iterator[str]:
    for withheld in reconciliation.withheld:
        pair = f"{entity_text(withheld.change.entity)} {withheld.change.key}"
        for violation in withheld.violations:
            yield f"not made: {pair}: {escaped(violation.message)} (allowed by {violation.setting or violation.allow_with})"


def _drift_lines(reconciliation: Reconciliation) -> Iterator[str]:
    for observation in reconciliation.observations:
        pair = f"{entity_text(observation.entity)} {observation.key}"
        value_text = f"{quantity(observation.key, observation.live)} instead of {quantity(observation.key, observation.expected)}"
        if observation.corrections_stopped:
            values = ", ".join(
                quantity(observation.key, value) for _, value in observation.corrections
            )
            yield (
                f"another writer keeps changing {pair}: {value_text}; {len(observation.corrections)} corrections of {values}"
                " were reverted; corrections stop until the window has passed or the document changes"
            )
        elif (
            observation.corrections and observation.corrections[-1][0] >= reconciliation.started_at
        ):
            yield f"drift corrected: {pair} was {value_text}"
        elif observation.confirmed:
            yield f"drift: {pair} is {value_text}"


def _expired_lines(reconciliation: Reconciliation) -> Iterator[str]:
    for expired in reconciliation.expired_overrides:
        override = expired.override
        yield (
            f"override ended at {instant(override.until)}: {entity_text(override.entity)} {override.key} is still"
            f" {quantity(override.key, expired.live)} instead of {quantity(override.key, expired.expected)}"
        )


def _failure_lines(outcome: Outcome) -> Iterator[str]:
    for pair_outcome in outcome.pairs:
        pair = f"{entity_text(pair_outcome.change.entity)} {pair_outcome.change.key}"
        match pair_outcome.result:
            case Rejected(name=name, message=message):
                yield f"rejected: {pair}: {name}: {escaped(message)}"
            case Held(waits_for=entities):
                yield f"waiting: {pair}: {waits_text(pair_outcome.change.entity, entities)}"
            case Unknown(reason=reason):
                yield f"unknown: {pair}: {escaped(reason)}"
            case _:
                pass


def _cut(lines: Iterable[str], adjective: str) -> Iterator[str]:
    every = list(lines)
    yield from every[:MOST_LINES]
    if len(every) > MOST_LINES:
        yield f"and {len(every) - MOST_LINES} more {adjective}"
