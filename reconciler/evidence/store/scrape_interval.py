"""How often the brokers of a unit were read: written beside its samples, so that no later job has to guess."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from reconciler.errors import LakeError
from reconciler.evidence.store.manifest import Manifest
from reconciler.usage.samples import Cadence

STEP: Final = "step_ms"
GAP: Final = "max_gap_ms"


def inputs(pace: Cadence) -> dict[str, str]:
    """What a manifest of samples says of it."""
    return {STEP: str(pace.step_ms), GAP: str(pace.max_gap_ms)}


def of(manifests: Iterable[Manifest]) -> dict[str, Cadence]:
    """The cadence of each cluster: the step of the newest of its days that says one, the longest gap of them all.

    A window may hold days that were recorded at another step. With the gap of the quicker ones every sample of the
    slower would be a session of its own, and no backlog would ever be carried on.

    Raises:
        LakeError: A manifest says something that is no cadence.
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
            f"{STEP} and {GAP} say no cadence: {inputs.get(STEP)!r}, {inputs.get(GAP)!r}", path=path
        ) from error
