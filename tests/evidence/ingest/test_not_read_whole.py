"""Files that could not be read completely: each affected day is marked until it is read completely."""

import pytest

from reconciler.errors import TelemetryError
from reconciler.evidence.ingest.sample_days import last_dialect
from reconciler.usage.tables import USAGE_SAMPLE
from tests.evidence.ingest import recorded_use
from tests.evidence.ingest.test_file_import import (
    BEGIN,
    ORDERS,
    PAYMENTS,
    lake,
    read,
    written,
)

MIDNIGHT = BEGIN + 600_000


def marks(where, cluster_id="id-o"):
    return {
        manifest.unit.day.isoformat(): manifest.partial
        for manifest in where.days(USAGE_SAMPLE, [cluster_id])
    }


def test_a_file_without_points_of_a_cluster_stores_no_day_of_it(tmp_path):
    where, path = lake(), written(tmp_path, "a.om")
    path.write_text(path.read_text()[:-300])
    read(where, path, sources=(ORDERS, PAYMENTS))
    assert marks(where, "id-p") == {}


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
