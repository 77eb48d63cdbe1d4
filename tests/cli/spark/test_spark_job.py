"""Commands of `kquota spark` that run a job: options set up the session, results are printed."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from reconciler.app.recorded_use.spark_job import run
from reconciler.base import installation as extras
from reconciler.cli.spark.lake import rollup_document
from reconciler.cli.spark.options import engine_option, running_options
from reconciler.errors import ConfigError, UsageError
from reconciler.evidence.spark.jobs import rollup
from reconciler.evidence.spark.runtime.session_settings import SessionSettings
from tests.cli.conftest import Run
from tests.evidence.spark import lakes


@click.command()
@running_options()
@engine_option()
def show_options(running: SessionSettings, engine: str) -> None:
    click.echo(f"{running} {engine}")


def test_options_define_where_a_job_runs() -> None:
    words = ["--master", "local[2]", "--memory", "2g", "--brief", "--engine", "core"]
    output = CliRunner().invoke(show_options, words).output
    assert output == f"{SessionSettings(master='local[2]', memory='2g', brief=True)} core\n"
    assert CliRunner().invoke(show_options, []).output == f"{SessionSettings()} auto\n"
    with pytest.raises(ConfigError, match="not both"):
        SessionSettings(master="local", remote="sc://x")


def test_without_the_extra_the_error_names_the_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(extras.MODULES, "spark", ("no_such_module",))
    with pytest.raises(UsageError, match="kquota spark rollup needs no_such_module") as caught:
        run("rollup", "memory://", SessionSettings())
    assert "[spark]" in caught.value.hint


def test_the_json_of_a_rollup_has_a_kind_and_a_version() -> None:
    done = rollup.RollupReport(tables=(rollup.TableRollup(table="usage_5m", units=2, rows=7),))
    document = json.loads(rollup_document(done))
    assert (document["kind"], document["format"]) == ("kquota-rollup", 1)
    assert document["tables"] == [
        {"table": "usage_5m", "units": 2, "rows": 7, "unchanged": 0, "again": 0}
    ]


@pytest.mark.integration
@pytest.mark.usefixtures("spark")
def test_rollup_prints_the_number_of_days_that_it_wrote(kquota: Run, folder: Path) -> None:
    lake = lakes.lake(folder)
    lakes.commit(lake, "b", lakes.day(0), lakes.samples("b", lakes.day(0)))
    done = kquota("spark", "rollup", "--lake", folder, "--format", "text")
    assert done.code == 0, done.err
    first, second = done.out.splitlines()
    assert first.startswith("usage_5m: 1 days made (")
    assert second.endswith("0 were up to date")
