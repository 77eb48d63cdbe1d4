"""The synthetic fleet: its tables fit lake and core, true demand is included, equal seeds give equal bytes."""

import json

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from reconciler.evidence.store.files import table_store
from reconciler.evidence.store.lake import Lake
from reconciler.usage import tables
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import GroupKind
from tests.fleet import demand
from tests.fleet.__main__ import main
from tests.fleet.lake_writer import limits_at, write
from tests.fleet.spec import DAY_MS, Fleet, What, events, tenants

FLEET = Fleet(clusters=2, brokers=3, groups=8, days=2, step_ms=300_000)


class Then:
    def now(self) -> float:
        return 0.0


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    counts = write(FLEET, folder / "lake", truth=folder / "truth")
    return folder, counts


def rows(folder, table):
    lake = Lake(table_store.opened(str(folder / "lake")), clock=Then())
    return lake.read(lake.days(table), table=table)


def test_a_day_of_every_table_is_a_unit(written):
    folder, counts = written
    for table in (
        tables.USAGE_SAMPLE,
        tables.TARGET_UP,
        tables.BROKER_SAMPLE,
        tables.SNAPSHOT,
        tables.QUOTA_ENTRY,
    ):
        table_rows = rows(folder, table)
        assert table_rows.num_rows == counts.rows[table.name] > 0
        assert len(table_rows.group_by(list(table.key)).aggregate([])) == table_rows.num_rows, (
            "a key twice"
        )


def test_the_same_seed_gives_the_same_files_and_another_one_does_not(written, tmp_path):
    folder, _ = written
    write(FLEET, tmp_path / "again")
    for path in sorted((folder / "lake").rglob("*.parquet")):
        (again,) = (tmp_path / "again" / path.parent.relative_to(folder / "lake")).glob("*.parquet")
        assert again.read_bytes() == path.read_bytes()
    assert not np.array_equal(tenants(FLEET, 0).mean, tenants(Fleet(clusters=2, seed=2), 0).mean)


def test_every_kind_of_event_occurs_and_is_listed(written):
    folder, _ = written
    document = json.loads((folder / "truth" / "events.json").read_text())
    assert {event["what"] for event in document} == set(What)
    assert all(
        FLEET.from_ms <= event["from_ms"] < event["to_ms"] <= FLEET.to_ms for event in document
    )


def test_demand_is_served_completely_or_waits(written):
    """Demand equals served units plus backlog, series by series."""
    for day in demand.days(FLEET, 0):
        if day.number == 0:
            expected_total = (day.demand * FLEET.step_ms // 1000).sum(axis=-1)
            passed = (day.served * FLEET.step_ms // 1000).sum(axis=-1)
            waiting = day.waits_ms[..., -1] * day.limit[:, :, None, -1] // 1000
            assert np.all(
                np.abs(expected_total - passed - waiting) <= expected_total // 1_000 + 500_000
            )
            free = day.limit[:, :, None, :] == 0
            assert np.all((day.served <= day.limit[:, :, None, :]) | free)


def test_groups_above_their_limit_are_throttled_and_marked_as_censored(written):
    folder, _ = written
    samples = rows(folder, tables.USAGE_SAMPLE)
    censored = samples.filter(pc.equal(samples.column("censored"), "yes"))
    assert 0 < censored.num_rows < samples.num_rows / 3
    assert pc.min(censored.column("throttle_ms")).as_py() > 0


def test_a_broker_that_cannot_be_scraped_or_is_stopped_has_no_samples(written):
    folder, _ = written
    up, used = rows(folder, tables.TARGET_UP), rows(folder, tables.USAGE_SAMPLE)
    down = {
        (cluster, broker, ts)
        for cluster, broker, ts, is_up in zip(
            *(up.column(name).to_pylist() for name in ("cluster_id", "broker_id", "ts_ms", "up")),
            strict=True,
        )
        if not is_up
    }
    sample_keys = set(
        zip(
            *(used.column(name).to_pylist() for name in ("cluster_id", "broker_id", "ts_ms")),
            strict=True,
        )
    )
    assert down
    assert not down & sample_keys


def test_samples_of_a_broker_cover_the_time_since_the_previous_one(written):
    folder, _ = written
    used = rows(folder, tables.USAGE_SAMPLE)
    lengths = set(used.column("dt_ms").to_pylist())
    assert FLEET.step_ms in lengths
    assert max(lengths) <= FLEET.pace.max_gap_ms


def test_a_new_limit_on_user_and_client_id_moves_traffic_to_other_tags(written):
    folder, _ = written
    flip = next(event for event in events(FLEET, 0) if event.what is What.TAG_FLIP)
    user, _ = FLEET.names(0, flip.group)
    used = rows(folder, tables.USAGE_SAMPLE)
    samples = used.filter(
        (pc.field("cluster_id") == FLEET.cluster_id(0))
        & (pc.field("user") == user)
        & (pc.field("rate_units") > 0)
    )
    kinds = {
        kind: samples.filter(pc.field("group_kind") == kind).column("ts_ms").to_pylist()
        for kind in (GroupKind.USER.value, GroupKind.PAIR.value)
    }
    assert max(kinds["user"]) < flip.from_ms <= min(kinds["pair"])
    before = {who for who, _, _ in limits_at(FLEET, 0, flip.from_ms - 1_000)}
    after = {who for who, _, _ in limits_at(FLEET, 0, flip.from_ms)}
    assert len(after - before) == 1


def test_a_restart_moves_the_load_and_loses_none():
    day = next(iter(demand.days(FLEET, 0)))
    quiet = next(
        iter(
            demand.days(
                Fleet(clusters=2, brokers=3, groups=8, days=2, step_ms=300_000, quiet=True), 0
            )
        )
    )
    away = ~day.alive.all(axis=0)
    if away.any():
        assert np.all(day.demand[:, :, ~day.alive[:, away].any(axis=1)][..., away] == 0)
    assert quiet.alive.all()
    assert quiet.up.all()
    assert not any(events(Fleet(quiet=True), 0))


def test_the_true_demand_is_stored_beside_the_lake(written):
    folder, _ = written
    cluster = FLEET.cluster_id(1)
    file = folder / "truth" / "demand" / cluster / f"{FLEET.day(1)}.parquet"
    table = pq.read_table(file)
    assert table.num_rows == 2 * FLEET.groups * FLEET.brokers * FLEET.steps
    truth = demand.demand_of(FLEET, 1, group=3, broker=2)
    rows_of_group = table.filter(
        (pc.field("quota_type") == "produce") & (pc.field("group") == 3) & (pc.field("broker") == 2)
    )
    assert (
        rows_of_group.column("wanted_units").to_pylist()
        == truth.units[truth.ts >= FLEET.from_ms + DAY_MS].tolist()
    )


def test_the_first_groups_have_the_highest_demand():
    mean = tenants(Fleet(groups=50), 0).mean[0]
    assert np.all(np.diff(mean) < 0)
    assert mean[0] / mean.sum() > 0.15


@pytest.mark.parametrize("wrong", [{"clusters": 0}, {"step_ms": 7_000}, {"step_ms": 5_000}])
def test_an_impossible_fleet_is_refused(wrong):
    with pytest.raises(ValueError, match="a fleet has"):
        Fleet(**wrong)


def test_the_command_prints_the_number_of_written_rows(tmp_path, capsys):
    assert (
        main(
            [
                "--clusters",
                "1",
                "--days",
                "1",
                "--step",
                "5m",
                "--first",
                "2026-09-12",
                "--out",
                str(tmp_path / "lake"),
            ]
        )
        == 0
    )
    assert "usage_sample" in capsys.readouterr().out
    assert (tmp_path / "lake/usage_sample/cluster_id=fleet-1-000/day=2026-09-12").is_dir()


def test_kinds_can_be_selected(tmp_path):
    counts = write(
        Fleet(clusters=1, days=1, groups=3, quiet=True, step_ms=300_000, kinds=(QuotaType.FETCH,)),
        tmp_path / "lake",
    )
    assert counts.rows["usage_sample"] <= 3 * 3 * 288
