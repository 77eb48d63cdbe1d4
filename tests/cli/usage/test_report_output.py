"""`kquota usage show`, `capacity` and `report`: options become jobs, reports become texts and pages."""

from pathlib import Path

import pytest

from reconciler.app.recorded_use.selection import SelectedCluster
from reconciler.cli.usage.options import ReportOutput
from reconciler.errors import QuotaValueError
from reconciler.manifest.project import file
from reconciler.render.use.report_text import report_text
from reconciler.usage.capacity import CapacityOfCluster
from tests.cli.conftest import Run
from tests.cli.consoles import Screen
from tests.evidence.analysis.report_lake import build_lake
from tests.render.use_reports import whole_report

PROJECT = """
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaCluster
metadata: {name: prod}
spec:
  bootstrapServers: localhost:9092
  expectedClusterId: c1
  brokerCapacity: {ingress: 125M, headroom: 0.7}
"""


def test_the_capacity_of_brokers_is_that_of_the_project() -> None:
    settings = file.parse(PROJECT).cluster("prod").cluster
    configured = SelectedCluster(id="c1", name="prod", settings=settings).capacity
    assert configured == CapacityOfCluster(
        cluster_id="c1", ingress=125 * 10**6, headroom_ppm=700_000
    )
    assert SelectedCluster(id="c2").capacity is None
    with pytest.raises(QuotaValueError, match="brokerCapacity of c1 is not positive"):
        CapacityOfCluster(cluster_id="c1", egress=0)


COMMANDS = ("show", "capacity", "report")


def refused(kquota: Run, command: str, *words: object) -> str:
    done = kquota("usage", command, "--lake", "lake", "--cluster-id", "c1", *words)
    assert done.code == 1
    assert done.out == ""
    return done.err


@pytest.mark.parametrize("command", COMMANDS)
def test_an_output_file_that_cannot_be_written_is_refused_before_the_work(
    kquota: Run, folder: Path, command: str
) -> None:
    text = refused(kquota, command, "--out", "no/report.md")
    assert "no/report.md cannot be written: there is no folder no" in text


def test_one_command_writes_a_page_from_a_lake(kquota: Run, folder: Path) -> None:
    build_lake(folder / "lake")
    (folder / "kquota.yaml").write_text(PROJECT)
    window = ("--from", "2026-11-01", "--to", "2026-11-02")
    done = kquota("usage", "report", "--lake", "lake", *window, "--out", "report.html")
    assert done.code == 0, done.err
    assert done.out == ""
    text = (folder / "report.html").read_text(encoding="utf-8")
    for fact in ("user=alice", "throttled", "≈ 83.4 MiB/s", "limit now 1 kB/s"):
        assert fact in text


def test_a_report_needs_no_java_unless_spark_is_asked_for(
    kquota: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    build_lake(folder / "lake")
    (folder / "kquota.yaml").write_text(PROJECT)
    window = ("--from", "2026-11-01", "--to", "2026-11-02")
    done = kquota("usage", "show", "--lake", "lake", *window)
    assert done.code == 0, done.err
    assert "user=alice" in done.out
    for words in (("--engine", "spark"), ("--master", "local[1]")):
        refused_run = kquota("usage", "show", "--lake", "lake", *window, *words)
        assert refused_run.code == 1
        assert "Java" in refused_run.err


def test_the_files_of_a_table_are_listed_for_other_engines(kquota: Run, folder: Path) -> None:
    build_lake(folder / "lake")
    done = kquota("usage", "files", "usage_sample", "--lake", "lake")
    path = folder / "lake/usage_sample/cluster_id=c1/day=2026-11-01/part.parquet"
    assert done.out == f"{path}\n"
    assert path.is_file()
    late = kquota("usage", "files", "usage_sample", "--lake", "lake", "--from", "2026-11-02")
    assert (late.code, late.out) == (0, "")
    run = kquota("usage", "files", "usage_sample", "--lake", "lake", "--cluster-id", "c2")
    assert (run.code, run.out) == (0, "")
    wrong = kquota("usage", "files", "samples", "--lake", "lake")
    assert "there is no table 'samples'" in wrong.err
    assert "usage_sample" in wrong.err


def test_text_in_a_file_has_neither_the_width_nor_the_colours_of_the_terminal(tmp_path) -> None:
    console = Screen(width=80, colour=True).console
    ReportOutput(out_path=tmp_path / "report.txt").show(console, whole_report())
    assert (tmp_path / "report.txt").read_text() == report_text(whole_report())
