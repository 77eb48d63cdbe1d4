"""The job `simulate` on a lake: rows equal those of the core, missing data and impossible rates are reported."""

import dataclasses
import datetime as dt
import itertools
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from reconciler.codecs.row_values import row_document
from reconciler.errors import QuotaValueError
from reconciler.evidence.spark.jobs import simulate
from reconciler.evidence.spark.runtime import job_runner
from reconciler.evidence.spark.tables.schemas import struct
from reconciler.evidence.spark.usage import (
    candidate_plans,
    impact_query,
    impact_summary,
    report_rows,
)
from reconciler.evidence.spark.usage.candidate_plans import CandidateLimits, SimulationRequest
from reconciler.evidence.store import recorded_window
from reconciler.evidence.store.lake import Lake
from reconciler.render.use.report_text import _simulated
from reconciler.usage.demand_bounds import FigureBound
from reconciler.usage.impact.bucket_mapping import HISTORY_BREAKS
from reconciler.usage.impact.result_rows import Simulation
from reconciler.usage.impact.tier_policy import USUAL, ElasticHandling, WhatIfPolicy
from reconciler.usage.impact.verdict import ImpactVerdict, Tolerance
from reconciler.usage.impact.what_if import CONSUMERS
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tables import IMPACT_ROW
from reconciler.usage.tags import bucket_of
from tests.evidence.spark import lakes, replays
from tests.fakes.progress import silent
from tests.render import use_reports
from tests.usage import whatif_cases

FROM = whatif_cases.START_MS // DAY_MS * DAY_MS


_NONE = Tolerance(new_throttled_ms_per_day=0, max_delay_ms=0)
STRICT = WhatIfPolicy(
    rules=tuple(dataclasses.replace(rule, tolerance=_NONE) for rule in USUAL),
    usual=dataclasses.replace(USUAL[1], tolerance=_NONE),
)
"""Refuses every worse result."""


def _work(fleets: list[whatif_cases.Case], **more: object) -> SimulationRequest:
    candidates = tuple(
        CandidateLimits(cluster_id=fleet.cluster_id, state=fleet.after) for fleet in fleets
    )
    return SimulationRequest(
        candidates=candidates, from_ms=FROM, to_ms=FROM + 2 * DAY_MS, source="lake", **more
    )


@pytest.fixture(scope="module")
def fleets() -> list[whatif_cases.Case]:
    cases = [whatif_cases.case(number) for number in range(24)]
    return sorted(cases, key=lambda case: case.cluster_id)


def _assert_same_counts(of_spark: Simulation, of_core: Simulation) -> None:
    assert (of_spark.left_out, of_spark.left_blind) == (of_core.left_out, of_core.left_blind)
    assert of_spark.verdicts == of_core.verdicts
    assert of_spark.may_be_worse == of_core.may_be_worse
    assert _simulated(of_spark).partition(";")[0] == _simulated(of_core).partition(";")[0]


@pytest.mark.integration
def test_spark_counts_and_ranks_rows_like_the_core(spark: SparkSession) -> None:
    """Whether "the same" may be worse depends on six columns: all combinations, in one frame."""
    plain = use_reports.IMPACT
    rows = [
        dataclasses.replace(
            plain,
            bucket=bucket_of(str(number)),
            verdict=verdict,
            bound=bound,
            before_units=before,
            after_units=after,
            observed_throttled_ms=throttled_ms,
            censored_ms=censored,
            covered_ms=DAY_MS,
        )
        for number, (verdict, bound, before, after, throttled_ms, censored) in enumerate(
            itertools.product(
                ImpactVerdict,
                FigureBound,
                (None, 5),
                (None, 4, 5, 6),
                (None, 0, 60_001),
                (0, 60_000, 70_000),
            )
        )
    ]
    day = dt.date(2026, 1, 1)
    columns = [row_document(row) | {"day": day} for row in rows]
    names = IMPACT_ROW.names
    frame = spark.createDataFrame(
        [tuple(values[name] for name in names) for values in columns], struct(IMPACT_ROW)
    )
    of_core = Simulation(evidence=(), rows=tuple(rows))
    counts = report_rows.tally(frame)
    assert counts == report_rows.VerdictCounts(verdicts=of_core.verdicts, blind=of_core.blind)
    assert of_core.may_be_worse
    ranked = frame.select("user", report_rows.severity().alias("severity")).collect()
    assert {row.user: row.severity for row in ranked} == {
        row.bucket.user: row.severity for row in rows
    }


@pytest.mark.integration
def test_omitted_consumers_are_counted_by_neither_engine(
    spark: SparkSession, tmp_path: Path, fleets: list[whatif_cases.Case]
) -> None:
    lake = replays.filled(tmp_path, fleets[:8], whatif_cases.CADENCE)
    work = _work(fleets[:8], most=5, policy=WhatIfPolicy(elastic=ElasticHandling.IGNORE))
    of_core = candidate_plans.by_core(lake, work)
    of_spark = simulate.simulated(spark, lake, work, silent)
    assert of_spark.rows == of_core.rows
    _assert_same_counts(of_spark, of_core)
    assert [note for note in of_core.notes if CONSUMERS in note]
    assert [note for note in of_spark.notes if CONSUMERS in note] == [
        note for note in of_core.notes if CONSUMERS in note
    ]


@pytest.mark.integration
def test_each_observation_is_counted_once_with_its_total(spark: SparkSession) -> None:
    """More sentences than are shown: exactly one sentence has their number."""
    remarks = [(impact_query.FLIPPED, 1_200), (impact_query.FLIPPED, 34)]
    remarks += [(impact_query.UNEXPLAINED, 7), *((impact_query.NOTE, n) for n in range(60))]
    beside = [
        dict.fromkeys(impact_query.ROWS.names)
        | {"cluster_id": "c", "item": item, "n": n, "reason": f"sentence {n}"}
        for item, n in remarks
    ]
    rows = spark.createDataFrame([], struct(IMPACT_ROW))
    result = impact_summary.simulation(
        rows, spark.createDataFrame(beside, impact_query.ROWS), (), STRICT
    )
    counted = [note for note in result.notes if not note.startswith("c: sentence")]
    assert counted == [
        "60 sentences about whole types in all; the first 50 are shown",
        "1,234 buckets without a limit will be counted under other names, and their history ends",
        "7 series were recorded under limits other than the current ones",
    ]


@pytest.mark.integration
def test_both_engines_return_the_same_report_and_store_the_same_rows(
    spark: SparkSession, tmp_path: Path, fleets: list[whatif_cases.Case]
) -> None:
    lake = replays.filled(tmp_path, fleets, whatif_cases.CADENCE)
    strange = CandidateLimits(cluster_id="nobody", state=fleets[0].after)
    work = _work(fleets, most=12, policy=STRICT)
    work = dataclasses.replace(work, candidates=(*work.candidates, strange))
    of_core = candidate_plans.by_core(lake, work)
    core_rows = lakes.rows_of(lake, IMPACT_ROW)
    of_spark = simulate.simulated(spark, lake, work, silent)
    assert lakes.rows_of(lake, IMPACT_ROW) == core_rows
    assert len(core_rows) > 100
    assert any(HISTORY_BREAKS in map(str, row.values()) for row in core_rows)
    assert of_spark.evidence == of_core.evidence
    assert of_spark.rows == of_core.rows
    _assert_same_counts(of_spark, of_core)
    assert of_spark.breaches
    assert of_spark.breaches == of_core.breaches[: len(of_spark.breaches)]
    assert of_spark.evidence[-1].stale == recorded_window.NO_SAMPLES
    assert not of_spark.enough


@pytest.mark.integration
def test_impossible_rates_raise_the_same_error_in_both_engines(
    spark: SparkSession, tmp_path: Path
) -> None:
    fleet, _, pacing = replays.beyond_64_bits()
    lake = replays.filled(tmp_path, [fleet], pacing)
    work = dataclasses.replace(_work([fleet]), to_ms=FROM + 13 * DAY_MS)
    with pytest.raises(QuotaValueError, match="no broker moves so much") as raised:
        candidate_plans.by_core(lake, work)
    with pytest.raises(PySparkException) as in_spark:
        simulate.simulated(spark, lake, work, silent)
    assert (
        job_runner.spark_error(in_spark.value, "simulate").message
        == f"simulate: {raised.value.message}"
    )


@pytest.mark.integration
def test_a_window_without_samples_is_reported_and_gives_no_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = lakes.lake(tmp_path)
    fleet = whatif_cases.case(3)
    of_spark = simulate.simulated(spark, lake, _work([fleet]), silent)
    assert of_spark == candidate_plans.by_core(lake, _work([fleet]))
    assert of_spark.evidence[0].stale == recorded_window.NO_SAMPLES
    assert of_spark.rows == ()


def test_samples_without_a_snapshot_of_the_limits_are_ignored(tmp_path: Path) -> None:
    fleet = whatif_cases.case(3)
    lake = replays.filled(tmp_path, [fleet], whatif_cases.CADENCE)
    early = dataclasses.replace(_work([fleet]), from_ms=FROM - DAY_MS, to_ms=whatif_cases.START_MS)
    assert candidate_plans.by_core(lake, early).evidence[0].stale
    assert isinstance(lake, Lake)


@pytest.mark.integration
def test_the_size_of_broadcast_rows_is_counted_by_old_buckets_and_not_by_requested_rows(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = ("pair", "u", "c", "", 5)
    row: dict[str, object] = dict.fromkeys(impact_query.ROWS.names)
    row |= {"cluster_id": "a", "item": impact_query.ASKED, "n": 0, "parts": [part] * 4}
    note_row = dict.fromkeys(impact_query.ROWS.names) | {
        "cluster_id": "a",
        "item": impact_query.NOTE,
        "n": 0,
    }
    asked_rows = spark.createDataFrame(
        [tuple(entry[name] for name in impact_query.ROWS.names) for entry in (row, note_row)],
        impact_query.ROWS,
    )
    monkeypatch.setattr(simulate, "MOST_BROADCAST", 4)
    assert simulate.fits(asked_rows)
    monkeypatch.setattr(simulate, "MOST_BROADCAST", 3)
    assert not simulate.fits(asked_rows)
