"""Limits in evidence: those at its end, and all within its window that decide which clients were counted together."""

from pathlib import Path

import pyarrow as pa
import pytest

from reconciler.evidence.store import published_evidence
from reconciler.evidence.store.lake import Lake, UnitContent
from reconciler.evidence.store.latest_pointer import LatestPointer
from reconciler.evidence.store.published_evidence import PublishedEvidence
from reconciler.evidence.store.publisher import publish
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.usage.impact.recorded_limits import MOST_WAYS
from reconciler.usage.samples import DAY_MS, cadence
from reconciler.usage.tables import QUOTA_ENTRY, SNAPSHOT, TARGET_UP, USAGE_SAMPLE
from tests.evidence.store import rows


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return rows.lake_in(tmp_path / "lake")


@pytest.fixture
def to(tmp_path: Path) -> rows.Watched:
    return rows.Watched(tmp_path / "evidence")


def published(lake: Lake, to: rows.Watched) -> LatestPointer:
    """Two days with samples."""
    for number in range(2):
        lake.commit(rows.unit(USAGE_SAMPLE, number), UnitContent(rows=rows.usage(number)), None)
        lake.commit(rows.unit(TARGET_UP, number), UnitContent(rows=rows.up(number)), None)
    pace, end = cadence(30_000), rows.at(2)
    return publish(lake, rows.CLUSTER, to, rows.at(0), end, pace=pace, now_ms=end)


def opened(to: rows.Watched) -> PublishedEvidence:
    return published_evidence.opened(to, rows.CLUSTER, rows.at(2), DAY_MS)


def test_limits_of_the_whole_window_are_read_back(lake: Lake, to: rows.Watched) -> None:
    limits_by_day: dict[int, list[rows.Limit]] = {
        0: [((("client-id", "app"),), "producer_byte_rate", 5.0)],
        1: [((("user", "alice"),), "producer_byte_rate", 7.0)],
    }
    for number, limits in limits_by_day.items():
        name = f"s{number}"
        lake.commit(
            rows.unit(SNAPSHOT, number),
            UnitContent(rows=rows.snapshots(number, [(name, 0, 1, True)])),
            None,
        )
        lake.commit(
            rows.unit(QUOTA_ENTRY, number),
            UnitContent(rows=rows.entries(number, name, limits)),
            None,
        )
    latest = published(lake, to)
    assert [part.source for part in latest.of(QUOTA_ENTRY)] == ["s1", "s0"]
    evidence = opened(to)
    assert evidence.state is not None
    assert set(evidence.state.limits) == {entity(user="alice")}
    assert evidence.recorded is not None
    assert [set(each.limits) for each in evidence.recorded.states] == [
        {entity(user="alice")},
        {entity(client_id="app")},
    ]
    assert not evidence.recorded.beyond


def test_keys_whose_limits_changed_too_often_are_named_in_evidence(
    lake: Lake, to: rows.Watched
) -> None:
    looks = range(MOST_WAYS + 1)
    snapshots = [(f"s{n}", n, 2, True) for n in looks]
    tables = [
        rows.entries(
            0,
            f"s{n}",
            [
                ((("user", f"u{n}"),), "producer_byte_rate", 5.0),
                ((("client-id", "a"),), "producer_byte_rate", 5.0),
            ],
        )
        for n in looks
    ]
    lake.commit(rows.unit(SNAPSHOT), UnitContent(rows=rows.snapshots(0, snapshots)), None)
    lake.commit(rows.unit(QUOTA_ENTRY), UnitContent(rows=pa.concat_tables(tables)), None)
    published(lake, to)
    evidence = opened(to)
    assert evidence.recorded is not None
    assert evidence.recorded.beyond == {Key.PRODUCER_BYTE_RATE}
    assert any("limits changed too often" in reason for reason in evidence.note.partial)
