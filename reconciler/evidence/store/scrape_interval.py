"""The scrape interval of a unit, stored in the manifest of its samples so that later jobs need not infer it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from reconciler.errors import LakeError
from reconciler.evidence.store.manifest import Manifest
from reconciler.usage.samples import Cadence

STEP: Final = "step_ms"
GAP: Final = "max_gap_ms"


def inputs(pace: Cadence) -> dict[str, str]:
    """Return the entries for ``Manifest.inputs``."""
    return {STEP: str(pace.step_ms), GAP: str(pace.max_gap_ms)}


def of(manifests: Iterable[Manifest]) -> dict[str, Cadence]:
    """Return the cadence of each cluster: the step of the newest day that has one, and the longest gap of all days.

    Days of a window can have different steps. With the shorter gap of the faster days, each sample of the slower days
    would be a session of its own and no backlog would carry over.

    Raises:
        LakeError: A manifest has an invalid step or gap.
    """
    cadences: dict[str, Cadence] = {}
    for day_manifest in sorted(manifests, key=lambda manifest: manifest.unit.day):
        if STEP in day_manifest.inputs or GAP in day_manifest.inputs:
            cadence, before = (
                _read(day_manifest.inputs, day_manifest.path),
                cadences.get(day_manifest.unit.cluster_id),
            )
            longest = max(cadence.max_gap_ms, before.max_gap_ms if before else 0)
            cadences[day_manifest.unit.cluster_id] = replace(cadence, max_gap_ms=longest)
    return cadences


def _read(inputs: Mapping[str, str], path: str) -> Cadence:
    try:
        return Cadence(step_ms=int(inputs[STEP]), max_gap_ms=int(inputs[GAP]))
    except (KeyError, ValueError) as error:
        raise LakeError(
            f"{STEP} and {GAP} are not a valid scrape interval: {inputs.get(STEP)!r}, {inputs.get(GAP)!r}",
            path=path,
        ) from error
