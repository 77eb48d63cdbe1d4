"""What the lake has of one client."""

from pathlib import Path

from reconciler.evidence.store.client_evidence import client_evidence
from reconciler.quota.entity import entity
from reconciler.usage.reports.client_throttling import ClientNames
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import bucket_of
from tests.evidence.analysis.report_lake import BEGIN, FROM, PACE, TIMES, TO, build_lake


def test_only_the_series_and_limits_of_the_client_are_read(tmp_path: Path) -> None:
    lake = build_lake(tmp_path)
    evidence = client_evidence(lake, "c1", ClientNames(user="alice"), FROM, TO)
    assert list(evidence.series) == [QuotaType.PRODUCE]
    assert list(evidence.series[QuotaType.PRODUCE]) == [bucket_of("alice")]
    series = evidence.series[QuotaType.PRODUCE][bucket_of("alice")]["1"]
    assert len(series) == len(TIMES)
    assert series.throttled_ms == PACE.step_ms
    ((observed_ms, state),) = evidence.limits
    assert observed_ms == BEGIN
    assert list(state.limits) == [entity(user="alice")]
    assert (evidence.cadence, evidence.is_partial) == (PACE, False)
    assert 0 < evidence.coverage_ppm < 1_000_000


def test_a_client_without_a_series_has_no_evidence(tmp_path: Path) -> None:
    lake = build_lake(tmp_path)
    evidence = client_evidence(lake, "c1", ClientNames(client_id="alice"), FROM, TO)
    assert (any(evidence.series.values()), evidence.reason) == (False, "")
    empty = client_evidence(lake, "c2", ClientNames(user="alice"), FROM, TO)
    assert (dict(empty.series), empty.limits, empty.coverage_ppm) == ({}, (), 0)
    assert empty.reason == "the lake has no samples of this cluster in the window"
