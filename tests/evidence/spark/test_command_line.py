"""The command line of `python -m reconciler.spark` comes from the fields of a job's settings."""

import dataclasses
import datetime as dt
import enum
import json
from pathlib import Path

import pytest

from reconciler.errors import UsageError
from reconciler.evidence.spark import command_line, jobs
from reconciler.evidence.spark.jobs import rollup
from reconciler.evidence.spark.runtime import job_runner, session
from reconciler.evidence.spark.runtime.job import Job, job_option
from reconciler.spark import __main__ as program


class Shade(enum.StrEnum):
    DARK = "dark"
    LIGHT = "light"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Everything:
    day: dt.date = job_option("a day")
    name: str | None = job_option("a name", default=None)
    number: int = job_option("how many, 5% of it", default=7)
    shade: Shade = job_option("which", default=Shade.DARK)
    names: tuple[str, ...] = job_option("some", default=(), metavar="NAME")
    really: bool = job_option("whether", default=True)


JOB = Job(
    name="everything",
    settings=Everything,
    run=rollup.run,
    example="--day 2026-11-01",
)


def understood(*words: str) -> object:
    arguments = vars(command_line._parser(JOB).parse_args(["--lake", "x", *words]))
    return command_line._build_settings(
        Everything, {field.name: arguments[field.name] for field in dataclasses.fields(Everything)}
    )


def test_each_type_of_field_is_read_and_left_out_ones_have_their_defaults() -> None:
    assert understood("--day", "2026-11-02") == Everything(day=dt.date(2026, 11, 2))
    words = "--day 2026-11-02 --name n --number 3 --shade light --names a --names b --no-really"
    assert understood(*words.split()) == Everything(
        day=dt.date(2026, 11, 2),
        name="n",
        number=3,
        shade=Shade.LIGHT,
        names=("a", "b"),
        really=False,
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "the following arguments are required: --day"),
        ("--day yesterday", r"argument --day: invalid day \(YYYY-MM-DD\) value: 'yesterday'"),
        ("--day 2026-11-01 --number x", "argument --number: invalid int value"),
        ("--day 2026-11-01 --shade red", "argument --shade: invalid"),
        ("--day 2026-11-01 --nam n", "unrecognized arguments: --nam n"),
    ],
)
def test_wrong_arguments_are_errors_of_ours(words: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        understood(*words.split())


def test_a_whole_command_line_gives_lake_session_and_settings() -> None:
    words = "rollup --lake s3://b/p --master local[2] --memory 2g --no-archive --brief --cluster a --cluster b"
    command = command_line.parsed(words.split())
    assert (command.job, command.lake) == (rollup.JOB, "s3://b/p")
    assert command.session == session.SessionSettings(
        master="local[2]", memory="2g", archive=False, brief=True
    )
    assert command.settings == rollup.RollupSettings(cluster=("a", "b"))
    assert command_line.parsed(["rollup", "--lake", "x"]).session == session.SessionSettings()


def test_an_unknown_job_and_none_at_all_name_what_there_is() -> None:
    with pytest.raises(UsageError, match="argument JOB: invalid choice: 'nap'"):
        command_line.parsed(["nap"])
    with pytest.raises(UsageError, match="the following arguments are required: JOB"):
        command_line.parsed([])
    with pytest.raises(UsageError, match="unknown job 'nap'"):
        jobs.load_job("nap")


@pytest.mark.parametrize("name", jobs.SUMMARIES)
def test_every_job_of_the_table_exists_explains_itself_and_its_example_is_understood(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job = jobs.load_job(name)
    assert job.name == name
    settings = job.settings
    assert dataclasses.is_dataclass(settings)
    assert settings.__dataclass_params__.frozen
    with pytest.raises(SystemExit) as ended:
        command_line.parsed([name, "--help"])
    assert ended.value.code == 0
    help_text = capsys.readouterr().out
    assert "Example:\n" in help_text
    assert jobs.SUMMARIES[name] in help_text
    command = command_line.parsed([name, "--lake", "./lake", *job.example.split()])
    assert isinstance(command.settings, settings)


def test_help_lists_the_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command_line.parsed(["--help"])
    help_text = capsys.readouterr().out
    assert all(summary in help_text for summary in jobs.SUMMARIES.values())
    assert "spark-submit --py-files WHEEL" in help_text


def test_an_error_is_told_on_stderr_with_its_hint_and_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert program.main(["rollup", "--lake", "x", "--remote", "here"]) == 1
    stdout, stderr = capsys.readouterr()
    assert stdout == ""
    assert stderr.startswith("error: here is not the address of a Spark Connect server\nhint: ")


def test_a_result_becomes_plain_json() -> None:
    done = rollup.RollupReport(tables=(rollup.TableRollup(table="t", units=2),))
    assert json.loads(json.dumps(job_runner.document(done)))["tables"][0]["units"] == 2
    odd = {1: (Shade.DARK, dt.date(2026, 11, 1), None, 1.5, {"x"})}
    assert job_runner.document(odd) == {"1": ["dark", "2026-11-01", None, 1.5, ["x"]]}


@pytest.mark.parametrize("job", ["capacity", "report"])
def test_a_capacity_that_is_none_is_refused_before_there_is_a_session(job: str) -> None:
    words = f"{job} --lake x --from-ms 1 --to-ms 2 --capacity typo".split()
    with pytest.raises(UsageError, match="--capacity typo: not of the form"):
        command_line.parsed(words)


@pytest.mark.parametrize("where", ["no/out.json", "."])
def test_a_result_that_could_not_be_written_is_refused_before_there_is_a_session(
    where: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="no file can be written there"):
        command_line.parsed(["rollup", "--lake", "x", "--output", str(tmp_path / where)])
