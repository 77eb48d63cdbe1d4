"""What-if on a lake: every column equals that of the core, missing data and impossible rates are reported."""

import dataclasses
import datetime as dt
from pathlib import Path

import pytest

from reconciler.codecs.state import state_document
from reconciler.errors import QuotaValueError, UsageError
from reconciler.evidence.analysis import impact
from reconciler.evidence.analysis.engine import LocalEngine
from reconciler.evidence.analysis.impact import CandidateLimits, SimulationRequest
from reconciler.evidence.analysis.results import TimeWindow
from reconciler.evidence.store import recorded_window
from reconciler.evidence.store.lake import Lake
from reconciler.quota.state import QuotaState
from reconciler.render.json_values import dump
from reconciler.usage.impact.bucket_mapping import HISTORY_BREAKS
from reconciler.usage.impact.query import impact_query
from reconciler.usage.impact.result_rows import ImpactRow, Simulation
from reconciler.usage.impact.tier_policy import USUAL, WhatIfPolicy
from reconciler.usage.impact.verdict import Tolerance
from reconciler.usage.samples import DAY_MS, QuotaType
from reconciler.usage.tables import IMPACT_ROW
from reconciler.usage.tags import Bucket
from tests.evidence.analysis import lakes, replays
from tests.fakes.progress import silent
from tests.usage import whatif_cases
from tests.usage.recorded import judged
from tests.usage.whatif_cases import CADENCE

FROM = whatif_cases.START_MS // DAY_MS * DAY_MS
CASES = 30

_NONE = Tolerance(new_throttled_ms_per_day=0, max_delay_ms=0)
STRICT = WhatIfPolicy(
    rules=tuple(dataclasses.replace(rule, tolerance=_NONE) for rule in USUAL),
    usual=dataclasses.replace(USUAL[1], tolerance=_NONE),
)
"""Refuses every worse result."""


def work_of(fleets: list[whatif_cases.Case], days: int = 2, **more: object) -> SimulationRequest:
    candidates = tuple(
        CandidateLimits(cluster_id=fleet.cluster_id, state=fleet.after) for fleet in fleets
    )
    window = TimeWindow(from_ms=FROM, to_ms=FROM + days * DAY_MS)
    return SimulationRequest(candidates=candidates, window=window, source="lake", **more)


def simulated(lake: Lake, work: SimulationRequest) -> Simulation:
    return impact.simulated(LocalEngine(), lake, work, silent)


def plain(row: ImpactRow, day: dt.date) -> tuple[object, ...]:
    """The columns of a row of the core."""
    of_bucket = row.bucket.columns | {"day": day}
    return tuple(
        of_bucket[name] if name in of_bucket else getattr(row, name) for name in IMPACT_ROW.names
    )


def of_core(lake: Lake, fleet: whatif_cases.Case, window: TimeWindow) -> list[tuple[object, ...]]:
    observed: dict[QuotaType, dict[str, set[Bucket]]] = {}
    for kind, buckets in fleet.series.items():
        for bucket, brokers in buckets.items():
            for broker, samples in brokers.items():
                if samples:
                    observed.setdefault(kind, {}).setdefault(broker, set()).add(bucket)
    recorded = recorded_window.opened(lake, fleet.cluster_id, *window.span)
    asks = impact_query(
        fleet.cluster_id,
        fleet.before,
        fleet.after,
        observed,
        measured=set(observed),
        recorded=recorded.limits.recorded(),
    )
    return [plain(row, window.last_day) for row in judged(asks, fleet.series, CADENCE)]


def texts(row: tuple[object, ...]) -> tuple[str, ...]:
    """A row as text, to sort by."""
    return tuple(map(str, row))


def test_every_column_of_generated_fleets_equals_that_of_the_core(tmp_path: Path) -> None:
    fleets = [whatif_cases.case(number, length=30) for number in range(CASES)]
    lake = replays.filled(tmp_path, fleets, CADENCE)
    strange = CandidateLimits(cluster_id="nobody", state=fleets[0].after)
    work = work_of(fleets, most=12, policy=STRICT)
    work = dataclasses.replace(work, candidates=(*work.candidates, strange))
    result = simulated(lake, work)
    stored = [
        tuple(row[name] for name in IMPACT_ROW.names) for row in lakes.rows_of(lake, IMPACT_ROW)
    ]
    expected = [row for fleet in fleets for row in of_core(lake, fleet, work.window)]
    assert sorted(stored, key=texts) == sorted(expected, key=texts)
    assert len(expected) > 100
    assert any(HISTORY_BREAKS in map(str, row) for row in stored)
    assert result.breaches
    assert result.left_out == len(expected) - len(result.rows)
    assert result.evidence[-1].stale == recorded_window.NO_SAMPLES
    assert not result.enough


def test_impossible_rates_are_an_error(tmp_path: Path) -> None:
    fleet, _, pacing = replays.beyond_64_bits()
    lake = replays.filled(tmp_path, [fleet], pacing)
    with pytest.raises(QuotaValueError, match="no broker moves so much"):
        simulated(lake, work_of([fleet], days=13))


def test_a_window_without_samples_is_reported_and_gives_no_rows(tmp_path: Path) -> None:
    result = simulated(lakes.lake(tmp_path), work_of([whatif_cases.case(3)]))
    assert result.evidence[0].stale == recorded_window.NO_SAMPLES
    assert result.rows == ()


def test_samples_without_a_snapshot_of_the_limits_are_ignored(tmp_path: Path) -> None:
    fleet = whatif_cases.case(3)
    lake = replays.filled(tmp_path, [fleet], CADENCE)
    early = TimeWindow(from_ms=FROM - DAY_MS, to_ms=whatif_cases.START_MS)
    assert simulated(lake, dataclasses.replace(work_of([fleet]), window=early)).evidence[0].stale


def test_plans_and_snapshots_that_no_candidate_limits_can_be_read_from_are_refused(
    tmp_path: Path,
) -> None:
    missing, snapshot = tmp_path / "plan.json", tmp_path / "after.json"
    with pytest.raises(UsageError, match=r"plan\.json cannot be read: .*No such file"):
        impact.candidates_of([missing], [])
    snapshot.write_text(dump(state_document(QuotaState(), cluster_id="", taken_at="")))
    with pytest.raises(UsageError, match=r"after\.json does not say of which cluster it is"):
        impact.candidates_of([], [snapshot])
    snapshot.write_text(dump(state_document(QuotaState(), cluster_id="c1", taken_at="")))
    with pytest.raises(UsageError, match="another file are both about cluster c1"):
        impact.candidates_of([], [snapshot, snapshot])
