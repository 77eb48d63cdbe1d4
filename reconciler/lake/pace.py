"""How often the brokers of a unit were read: written beside its samples, so that no later job has to guess."""

from collections.abc import Iterable, Mapping
from typing import Final

from reconciler.errors import LakeError
from reconciler.lake.manifest import Manifest
from reconciler.usage.samples import Cadence

STEP: Final = "step_ms"
GAP: Final = "max_gap_ms"


def inputs(pace: Cadence) -> dict[str, str]:
    """What a manifest of samples says of it."""
    return {STEP: str(pace.step_ms), GAP: str(pace.max_gap_ms)}


def of(manifests: Iterable[Manifest]) -> dict[str, Cadence]:
    """The cadence of each cluster, by the newest of its days that says one.

    Raises:
        LakeError: A manifest says something that is no cadence.
    """
    found: dict[str, Cadence] = {}
    for one in sorted(manifests, key=lambda manifest: manifest.unit.day):
        if STEP in one.inputs or GAP in one.inputs:
            found[one.unit.cluster_id] = _read(one.inputs, one.path)
    return found


def _read(given: Mapping[str, str], path: str) -> Cadence:
    try:
        return Cadence(step_ms=int(given[STEP]), max_gap_ms=int(given[GAP]))
    except (KeyError, ValueError) as error:
        raise LakeError(
            f"{STEP} and {GAP} say no cadence: {given.get(STEP)!r}, {given.get(GAP)!r}", path=path
        ) from error
