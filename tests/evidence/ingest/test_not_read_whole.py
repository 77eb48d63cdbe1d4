"""Files that could not be read completely: each affected day is marked until it is read completely."""

import re

import pytest

from reconciler.errors import LakeError, TelemetryError
from reconciler.evidence.ingest.drop_reasons import DropReason
from reconciler.evidence.ingest.sample_days import last_dialect
from reconciler.evidence.store.lake import Lake
from reconciler.usage.tables import USAGE_SAMPLE
from tests.evidence.ingest import recorded_use
from tests.evidence.ingest.test_file_import import (
    BEGIN,
    ORDERS,
    PAYMENTS,
    lake,
    read,
    samples,
    written,
)
from tests.evidence.store.stores import PassingStore
from tests.fakes.clock import FakeClock

MIDNIGHT = BEGIN + 600_000
DAYS = ["2023-11-14", "2023-11-15"]


def marks(where, cluster_id="id-o"):
    return {
        manifest.unit.day.isoformat(): manifest.partial
        for manifest in where.days(USAGE_SAMPLE, [cluster_id])
    }


def not_whole(*names):
    return dict.fromkeys(DAYS, tuple(f"the file {name} was not read whole" for name in names))


COMPLETE = dict.fromkeys(DAYS, ())


def broken_lines(text):
    return (
        "\n".join(
            line[: len(line) // 2] if at % 2 else line
            for at, line in enumerate(text.split("\n")[:-2])
        )
        + "\n# EOF\n"
    )


@pytest.mark.parametrize(
    ("harm", "word"), [(broken_lines, "bad_line"), (lambda text: text[:-300], "truncated")]
)
def test_days_of_a_partial_file_are_marked_until_it_is_read_completely(tmp_path, harm, word):
    where, path = lake(), written(tmp_path, "a.om")
    text = path.read_text()
    path.write_text(harm(text))
    brought = read(where, path)
    assert brought.counts[DropReason[word.upper()]] >= 1
    assert brought.failures == ()
    assert marks(where) == not_whole("a.om")
    path.write_text(text)
    read(where, path)
    assert marks(where) == COMPLETE
    assert len(samples(where)) == 160


def test_a_file_that_cannot_be_read_marks_the_days_of_the_readable_ones(tmp_path):
    where = lake()
    first = written(tmp_path, "a.om", recorded_use.recorded(BEGIN, 40, brokers=1))
    second = written(tmp_path, "b.om")
    content = second.read_bytes()
    second.write_bytes(content + b"\xff\n")
    brought = read(where, first, second)
    (failure,) = brought.failures
    assert "b.om" in failure
    assert marks(where) == not_whole("b.om")
    second.write_bytes(content)
    assert read(where, first, second).failures == ()
    assert marks(where) == COMPLETE


def test_a_file_without_points_of_a_cluster_stores_no_day_of_it(tmp_path):
    where, path = lake(), written(tmp_path, "a.om")
    path.write_text(path.read_text()[:-300])
    read(where, path, sources=(ORDERS, PAYMENTS))
    assert marks(where, "id-p") == {}


def test_invalid_lines_of_one_file_do_not_mark_the_days_of_the_next(tmp_path):
    where = lake()
    bad = written(tmp_path, "a.om", recorded_use.recorded(BEGIN, 40, brokers=1))
    bad.write_text(broken_lines(bad.read_text()))
    read(where, bad, written(tmp_path, "b.om"))
    assert marks(where) == not_whole("a.om")


class Full:
    """A store without space for points of one day."""

    def __init__(self, inner, day):
        self._inner, self._day = inner, day

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def put(self, path, content, *, after):
        if path.startswith("broker_sample/") and self._day in path:
            raise LakeError("no space is left")
        self._inner.put(path, content, after=after)


def test_a_lake_that_fails_during_the_import_is_a_failure_and_the_stored_rows_are_reported(
    tmp_path,
):
    where = Lake(Full(PassingStore(), DAYS[1]), clock=FakeClock(), pause=lambda _: None)
    brought = read(where, written(tmp_path, "a.om"))
    assert brought.failures == ("no space is left; data written to the lake before is kept",)
    new = brought.arrived["id-o"].new
    assert {day.isoformat(): count for day, count in new.items()} == {DAYS[0]: 240}


def test_files_without_a_usable_point_are_an_error_with_the_drop_reasons(tmp_path):
    path = written(tmp_path, "a.om")
    path.write_text(re.sub(r" [0-9.]+$", "", path.read_text(), flags=re.MULTILINE))
    with pytest.raises(TelemetryError, match="480 no_time: points without a time"):
        read(lake(), path)


def test_an_idle_cluster_is_read_in_its_previous_dialect(tmp_path):
    where = lake()
    idle = written(tmp_path, "rest.om", recorded_use.recorded(MIDNIGHT + 3_600_000, 40, users=0))
    with pytest.raises(TelemetryError, match="no metric of client quotas"):
        read(where, idle)
    read(where, written(tmp_path, "a.om"))
    assert last_dialect(where, "id-o") == "jmx_exporter"
    brought = read(where, idle)
    assert "idle cluster" in brought.arrived["id-o"].remarks[0]
    assert sum(brought.arrived["id-o"].new.values()) > 0


def test_unreadable_series_may_name_clients_and_the_cluster_is_not_idle(tmp_path):
    where = lake()
    read(where, written(tmp_path, "a.om"))
    idle = written(tmp_path, "rest.om", recorded_use.recorded(MIDNIGHT, 40, users=0))
    idle.write_text(idle.read_text()[:-300])
    with pytest.raises(TelemetryError, match="no metric of client quotas"):
        read(where, idle)
    bad = tmp_path / "b.om"
    bad.write_bytes(b"\xff\n")
    complete = written(tmp_path, "whole.om", recorded_use.recorded(MIDNIGHT, 40, users=0))
    with pytest.raises(TelemetryError, match="no metric of client quotas"):
        read(where, complete, bad)
