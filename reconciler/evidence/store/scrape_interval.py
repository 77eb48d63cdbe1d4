"""The scrape interval of a day, stored with its samples so that nobody needs to infer it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from reconciler.errors import LakeError
from reconciler.evidence.store.stored_days import StoredDay
from reconciler.usage.samples import Cadence

STEP: Final = "step_ms"
GAP: Final = "max_gap_ms"


def inputs(pace: Cadence) -> dict[str, str]:
    """Return the entries for ``UnitContent.inputs``."""
    return {STEP: str(pace.step_ms), GAP: str(pace.max_gap_ms)}


def of(days: Iterable[StoredDay]) -> dict[str, Cadence]:
    """Return the cadence of each cluster: the step of the newest day that has one, and the longest gap of all days.

    Days of a window can have different steps. With the shorter gap of the faster days, each sample of the slower days
    would be a session of its own and no backlog would carry over.

    Raises:
        LakeError: A day has an invalid step or gap.
    """
    cadences: dict[str, Cadence] = {}
    for day in sorted(days, key=lambda day: day.unit.day):
        if STEP in day.inputs or GAP in day.inputs:
            cadence, before = (
                _read(day.inputs, day.unit.path),
                cadences.get(day.unit.cluster_id),
            )
            longest = max(cadence.max_gap_ms, before.max_gap_ms if before else 0)
            cadences[day.unit.cluster_id] = replace(cadence, max_gap_ms=longest)
    return cadences


def _read(inputs: Mapping[str, str], path: str) -> Cadence:
    try:
        return Cadence(step_ms=int(inputs[STEP]), max_gap_ms=int(inputs[GAP]))
    except (KeyError, ValueError) as error:
        raise LakeError(
            f"{STEP} and {GAP} are not a valid scrape interval: {inputs.get(STEP)!r}, {inputs.get(GAP)!r}",
            path=path,
        ) from error
