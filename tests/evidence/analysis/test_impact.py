"""What-if on a lake: every column equals that of the core, missing data and impossible rates are reported."""

from pathlib import Path

import pytest

from reconciler.errors import QuotaValueError
from reconciler.evidence.analysis import impact
from reconciler.evidence.analysis.candidate_limits import CandidateLimits
from reconciler.evidence.analysis.engine import LocalEngine
from reconciler.evidence.analysis.impact import SimulationRequest
from reconciler.evidence.analysis.window import TimeWindow
from reconciler.evidence.store.lake import Lake
from reconciler.usage.impact.result_rows import Simulation
from reconciler.usage.samples import DAY_MS
from tests.evidence.analysis import replays
from tests.fakes.progress import silent
from tests.usage import whatif_cases

FROM = whatif_cases.START_MS // DAY_MS * DAY_MS


def work_of(fleets: list[whatif_cases.Case], days: int = 2, **more: object) -> SimulationRequest:
    candidates = tuple(
        CandidateLimits(cluster_id=fleet.cluster_id, state=fleet.after) for fleet in fleets
    )
    window = TimeWindow(from_ms=FROM, to_ms=FROM + days * DAY_MS)
    return SimulationRequest(candidates=candidates, window=window, source="lake", **more)


def simulated(lake: Lake, work: SimulationRequest) -> Simulation:
    return impact.simulated(LocalEngine(), lake, work, silent)


def test_impossible_rates_are_an_error(tmp_path: Path) -> None:
    fleet, _, pacing = replays.beyond_64_bits()
    lake = replays.filled(tmp_path, [fleet], pacing)
    with pytest.raises(QuotaValueError, match="no broker moves so much"):
        simulated(lake, work_of([fleet], days=13))
