"""`kquota spark usage`, `capacity` and `report`: options become jobs, reports become texts and pages."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.cli.console import Console
from reconciler.cli.spark_capacity import capacities_of
from reconciler.cli.spark_options import Chosen
from reconciler.cli.spark_showing import Showing, show_report
from reconciler.errors import UsageError
from reconciler.manifest import project
from tests.render.use_reports import whole_report
from tests.spark.report_lake import made

TREE = Path(__file__).parents[2]
PROJECT = """
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaCluster
metadata: {name: prod}
spec:
  bootstrapServers: localhost:9092
  expectedClusterId: c1
  brokerCapacity: {ingress: 125M, headroom: 0.7}
"""


def test_what_brokers_carry_comes_from_the_project_unless_it_is_typed() -> None:
    settings = project.parse(PROJECT).cluster("prod").cluster
    chosen = [Chosen(id="c1", name="prod", settings=settings), Chosen(id="c2")]
    assert capacities_of(chosen, ()) == ("c1=125000000:-:700000",)
    assert capacities_of(chosen, ("c1=5:6",)) == ("c1=5:6",)


@pytest.mark.parametrize(
    ("showing", "expected"),
    [
        (Showing(), "text"),
        (Showing(out=Path("a.html")), "html"),
        (Showing(out=Path("a.MD")), "markdown"),
        (Showing(out=Path("a.html"), output="json"), "json"),
        (Showing(out=Path("a.txt")), "text"),
    ],
)
def test_the_name_of_a_file_says_the_format_unless_it_is_typed(showing, expected) -> None:
    assert showing.format == expected


def test_a_page_with_pseudonyms_holds_no_name(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("0123456789abcdef0123\n")
    out = tmp_path / "page.html"
    show_report(Console.of_process({}), whole_report(), Showing(out=out, pseudonymise=key))
    text = out.read_text(encoding="utf-8")
    assert "etl" not in text
    assert "user-" in text


@pytest.mark.parametrize(
    ("content", "words"), [(None, "cannot be read"), ("short", "at least 16 bytes")]
)
def test_a_key_that_is_missing_or_short_is_refused(tmp_path: Path, content, words) -> None:
    key = tmp_path / "key"
    if content is not None:
        key.write_text(content)
    with pytest.raises(Exception, match=words):
        show_report(
            Console.of_process({}),
            whole_report(),
            Showing(out=tmp_path / "x.html", pseudonymise=key),
        )


def test_a_folder_that_is_not_there_is_an_error_of_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        show_report(
            Console.of_process({}),
            replace(whole_report(), notes=()),
            Showing(out=tmp_path / "no" / "x.html"),
        )


@pytest.mark.integration
def test_one_command_makes_a_page_of_a_lake(tmp_path: Path) -> None:
    made(tmp_path / "lake")
    (tmp_path / "kquota.yaml").write_text(PROJECT)
    command = [sys.executable, "-m", "reconciler", "spark", "report", "--lake", str(tmp_path / "lake"), "--from", "2026-11-01",
        "--to", "2026-11-02", "--project", str(tmp_path / "kquota.yaml"), "--master", "local[2]", "--memory", "700m", "--brief"]  # fmt: skip
    page = tmp_path / "report.html"
    done = subprocess.run(
        [*command, "--out", str(page)], cwd=TREE, env=os.environ, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    text = page.read_text(encoding="utf-8")
    for fact in ("user=alice", "throttled", "≈ 83.4 MiB/s", "limit now 1 kB/s"):
        assert fact in text
