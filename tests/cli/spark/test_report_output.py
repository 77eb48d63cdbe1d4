"""`kquota spark usage`, `capacity` and `report`: options become jobs, reports become texts and pages."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.app.recorded_use.selection import SelectedCluster
from reconciler.base.text_files import check_place
from reconciler.cli.framework.console import Console
from reconciler.cli.spark.report_output import ReportOutput
from reconciler.errors import QuotaValueError, UsageError
from reconciler.evidence.spark.runtime import job_runner
from reconciler.manifest.project import file
from reconciler.usage.capacity import CapacityOfCluster
from tests.cli.conftest import Run
from tests.cli.consoles import Screen
from tests.evidence.spark.report_lake import build_lake
from tests.render.use_reports import USAGE, whole_report

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


@pytest.mark.parametrize(
    ("showing", "expected"),
    [
        (ReportOutput(), "text"),
        (ReportOutput(out_path=Path("a.html")), "html"),
        (ReportOutput(out_path=Path("a.MD")), "markdown"),
        (ReportOutput(out_path=Path("a.html"), output="json"), "json"),
        (ReportOutput(out_path=Path("a.txt")), "text"),
    ],
)
def test_the_file_name_determines_the_format_unless_it_is_given(showing, expected) -> None:
    assert showing.format == expected


COMMANDS = ("usage", "capacity", "report")


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that would start a session fails, with another message than the expected one."""

    def run(*_: object) -> None:
        raise AssertionError("a session would start")

    monkeypatch.setattr(job_runner, "run", run)


def refused(kquota: Run, command: str, *words: object) -> str:
    done = kquota("spark", command, "--lake", "lake", "--cluster-id", "c1", *words)
    assert done.code == 1
    assert done.out == ""
    return done.err


@pytest.mark.usefixtures("no_session")
@pytest.mark.parametrize("command", COMMANDS)
def test_an_output_file_that_cannot_be_written_is_refused_before_the_work(
    kquota: Run, folder: Path, command: str
) -> None:
    text = refused(kquota, command, "--out", "no/report.md")
    assert "no/report.md cannot be written: there is no folder no" in text


@pytest.mark.usefixtures("no_session")
def test_valid_options_reach_the_start_of_a_session(kquota: Run, folder: Path) -> None:
    done = kquota("spark", "report", "--lake", "lake", "--cluster-id", "c1", "--out", "x.html")
    assert "a session would start" in done.err


def test_an_output_path_that_is_a_folder_or_not_writable_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it is a directory"):
        check_place(tmp_path)
    if os.geteuid():  # root can write everywhere
        tmp_path.chmod(0o500)
        with pytest.raises(UsageError, match="is not writable"):
            check_place(tmp_path / "x.html")
        tmp_path.chmod(0o700)
    check_place(tmp_path / "x.html")


def test_markdown_contains_the_requested_number_of_rows_for_every_output(tmp_path: Path) -> None:
    report = replace(whole_report(), usage=(USAGE,) * 80)
    path = tmp_path / "report.md"
    ReportOutput(out_path=path).show(Console.of_process({}), report)
    screen = Screen()
    ReportOutput(output="markdown").show(screen.console, report)
    for text in (path.read_text(encoding="utf-8"), screen.facts):
        assert text.count("| throttled |\n") == 80
        assert "and 12 more rows" in text


@pytest.mark.integration
@pytest.mark.usefixtures("spark")
def test_one_command_writes_a_page_from_a_lake(kquota: Run, folder: Path) -> None:
    build_lake(folder / "lake")
    (folder / "kquota.yaml").write_text(PROJECT)
    window = ("--from", "2026-11-01", "--to", "2026-11-02")
    done = kquota("spark", "report", "--lake", "lake", *window, "--out", "report.html")
    assert done.code == 0, done.err
    assert done.out == ""
    text = (folder / "report.html").read_text(encoding="utf-8")
    for fact in ("user=alice", "throttled", "≈ 83.4 MiB/s", "limit now 1 kB/s"):
        assert fact in text
