"""How often the brokers of a unit were read: written beside its samples, so that no later job has to guess."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
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
    """The cadence of each cluster: the step of the newest of its days that says one, the longest gap of them all.

    A window may hold days that were recorded at another step. With the gap of the quicker ones every sample of the
    slower would be a session of its own, and no backlog would ever be carried on.

    Raises:
        LakeError: A manifest says something that is no cadence.
    """
    found: dict[str, Cadence] = {}
    for one in sorted(manifests, key=lambda manifest: manifest.unit.day):
        if STEP in one.inputs or GAP in one.inputs:
            here, before = _read(one.inputs, one.path), found.get(one.unit.cluster_id)
            longest = max(here.max_gap_ms, before.max_gap_ms if before else 0)
            found[one.unit.cluster_id] = replace(here, max_gap_ms=longest)
    return found


def _read(given: Mapping[str, str], path: str) -> Cadence:
    try:
        return Cadence(step_ms=int(given[STEP]), max_gap_ms=int(given[GAP]))
    except (KeyError, ValueError) as error:
        raise LakeError(
            f"{STEP} and {GAP} say no cadence: {given.get(STEP)!r}, {given.get(GAP)!r}", path=path
        ) from error
