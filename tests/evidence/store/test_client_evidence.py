"""What the lake has of one client."""

from datetime import UTC, datetime
from pathlib import Path

from reconciler.evidence.store.client_evidence import client_evidence
from reconciler.quota.entity import entity, parts
from reconciler.quota.keys import COLUMN_OF, Key
from reconciler.quota.results.audit_entry import AuditEntry
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
    assert evidence.cadence == PACE
    assert 0 < evidence.note.coverage_ppm < 1_000_000


def test_changes_of_the_audit_log_are_in_force_from_their_time(tmp_path: Path) -> None:
    def entry(at_ms: int, value: float | None, **differences: object) -> AuditEntry:
        fields = {"cluster_id": "c1", "outcome": "APPLIED", "user": "alice"} | differences
        return AuditEntry(
            v=1,
            time=str(
                fields.get("time")
                or datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
            ),
            author="",
            commit="",
            cluster_id=str(fields["cluster_id"]),
            digest="",
            entity=parts(entity(user=str(fields["user"]))),
            key=str(fields.get("key", Key.PRODUCER_BYTE_RATE)),
            after=value,
            cause="",
            document="",
            outcome=str(fields["outcome"]),
        )

    moment = BEGIN // 1000 * 1000 + 60_000
    changes = [
        entry(BEGIN - 60_000, 1.0),
        entry(moment, 2.0, outcome="INTENDED"),
        entry(moment, 3.0, cluster_id="c2"),
        entry(moment, 4.0, user="bob"),
        entry(moment, 5.0, key="of_another_version"),
        entry(moment, 5.0, time="yesterday"),
        entry(moment, 6.0),
        entry(moment + 60_000, None),
    ]
    lake = build_lake(tmp_path)
    evidence = client_evidence(lake, "c1", ClientNames(user="alice"), FROM, TO, changes=changes)
    producing = [
        (at_ms, state.limits[entity(user="alice")][COLUMN_OF[Key.PRODUCER_BYTE_RATE]])
        if state.limits
        else (at_ms, None)
        for at_ms, state in evidence.limits
    ]
    assert producing[1:] == [(moment, 6.0), (moment + 60_000, None)]
    assert producing[0][0] == BEGIN


def test_a_client_without_a_series_has_no_evidence(tmp_path: Path) -> None:
    lake = build_lake(tmp_path)
    evidence = client_evidence(lake, "c1", ClientNames(client_id="alice"), FROM, TO)
    assert (any(evidence.series.values()), evidence.note.stale) == (False, "")
    empty = client_evidence(lake, "c2", ClientNames(user="alice"), FROM, TO)
    assert (dict(empty.series), empty.limits, empty.note.coverage_ppm) == ({}, (), 0)
    assert empty.note.stale == "the lake has no samples of this cluster in the window"


def test_a_time_in_which_nothing_was_recorded_is_named_as_missing(tmp_path: Path) -> None:
    lake, alice, later = build_lake(tmp_path), ClientNames(user="alice"), TIMES[-1] + PACE.step_ms
    for at_ms, silent in ((TIMES[0], ()), (TIMES[-1], ()), (later, ("1",))):
        evidence = client_evidence(lake, "c1", alice, FROM, TIMES[-1], at_ms=at_ms)
        assert evidence.silent_brokers == silent
    evidence = client_evidence(lake, "c1", alice, later, TO)  # of a day that has samples
    assert evidence.note.stale == "the lake has no samples of this cluster in the window"
    evidence = client_evidence(lake, "c1", alice, FROM - 86_400_000, TO)
    assert evidence.note.partial == ("1 of 2 days have no samples: 2026-10-31",)
