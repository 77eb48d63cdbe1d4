"""The command line of ``python -m reconciler.spark``; arguments are derived from the fields of a job's settings."""

import argparse
import dataclasses
import datetime as dt
import enum
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from reconciler.errors import UsageError
from reconciler.evidence.spark import jobs
from reconciler.evidence.spark.runtime import session
from reconciler.evidence.spark.runtime.job import HELP, METAVAR, Job

PROGRAM: Final = "python -m reconciler.spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCommand:
    """A parsed command line."""

    job: Job[Any]
    lake: str
    output: Path | None
    session: session.SessionSettings
    settings: object


class _JobArgumentParser(argparse.ArgumentParser):
    """Raises :class:`UsageError` for wrong arguments, with the message format and exit code of all commands."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"{self.prog} --help")


def parsed(words: Sequence[str]) -> JobCommand:
    """Parse a command line.

    Raises:
        UsageError: The command line is wrong.
        SystemExit: Help was requested and has been printed.
    """
    parser = _JobArgumentParser(
        prog=PROGRAM,
        description="Runs one job over recorded use.",
        epilog=_job_list(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("job", choices=list(jobs.SUMMARIES), metavar="JOB", help="what to do")
    name = parser.parse_args(words[:1]).job
    job = jobs.load_job(name)
    values_by_name = vars(_parser(job).parse_args(words[1:]))
    output: Path | None = values_by_name.pop("output")
    if output is not None and (output.is_dir() or not output.parent.is_dir()):
        # Checked before the run: a job of hours must not end without a place for its result.
        raise UsageError(f"--output {output}: no file can be written there")
    return JobCommand(
        job=job,
        lake=values_by_name.pop("lake"),
        output=output,
        session=_build_settings(
            session.SessionSettings,
            {
                field.name: values_by_name.pop(f"session_{field.name}")
                for field in dataclasses.fields(session.SessionSettings)
            },
        ),
        settings=_build_settings(job.settings, values_by_name),
    )


def _job_list() -> str:
    width = max(map(len, jobs.SUMMARIES))
    lines = [f"  {name:{width}}  {summary}" for name, summary in jobs.SUMMARIES.items()]
    return "\n".join(
        (
            "jobs:",
            *lines,
            "",
            "Example:",
            f"  {PROGRAM} rollup --lake ./lake",
            "  spark-submit --py-files WHEEL reconciler/spark/__main__.py rollup --lake s3://metrics/kquota",
        )
    )


def _parser(job: Job[Any]) -> argparse.ArgumentParser:
    parser = _JobArgumentParser(
        prog=f"{PROGRAM} {job.name}",
        description=jobs.SUMMARIES.get(job.name),
        epilog=f"Example:\n  {PROGRAM} {job.name} --lake ./lake {job.example}".rstrip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--lake",
        required=True,
        metavar="URI",
        help="where tables are kept: a folder, s3://, gs://, az://",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write the result to FILE instead of stdout, where spark-submit also prints progress",
    )
    group = parser.add_argument_group("where it runs; leave this out under spark-submit")
    for option, metavar, text in (
        ("master", "URL", "a Spark master, such as local[4] or spark://host:7077"),
        ("remote", "sc://HOST", "a Spark Connect server"),
        ("memory", "SIZE", "heap of the JVM that is started here, such as 4g"),
    ):
        group.add_argument(f"--{option}", dest=f"session_{option}", metavar=metavar, help=text)
    group.add_argument(
        "--no-archive",
        dest="session_archive",
        action="store_false",
        help="start the JVM without a class-data archive",
    )
    group.add_argument(
        "--brief",
        dest="session_brief",
        action="store_true",
        help="for runs of seconds: start faster, compute slower",
    )
    hints = typing.get_type_hints(job.settings)
    for field in dataclasses.fields(job.settings):
        _add(parser, field, hints[field.name])
    return parser


def _add(parser: argparse.ArgumentParser, field: "dataclasses.Field[Any]", hint: object) -> None:
    """Add the argument of a settings field. argparse collects a list; :func:`_build_settings` makes it a tuple."""
    option = f"--{field.name.replace('_', '-')}"
    required = field.default is dataclasses.MISSING
    options: dict[str, Any] = {
        "dest": field.name,
        "help": _help(field),
        "default": None if required else field.default,
    }
    inner = _without_none(hint)
    if inner is bool:
        parser.add_argument(option, action=argparse.BooleanOptionalAction, **options)
        return
    if field.metadata.get(METAVAR):
        options["metavar"] = field.metadata[METAVAR]
    if typing.get_origin(inner) is tuple:
        options["default"] = None
        parser.add_argument(option, action="append", required=required, **options)
    elif isinstance(inner, type) and issubclass(inner, enum.StrEnum):
        parser.add_argument(option, type=inner, choices=list(inner), required=required, **options)
    else:
        parser.add_argument(option, type=_READERS[inner], required=required, **options)


def _day(text: str) -> dt.date:
    return dt.date.fromisoformat(text)


_day.__name__ = "day (YYYY-MM-DD)"  # argparse puts this name into its error message

_READERS: Final[dict[object, Any]] = {str: str, int: int, dt.date: _day}


def _help(field: "dataclasses.Field[Any]") -> str:
    text = str(field.metadata[HELP])
    plain = field.default in (dataclasses.MISSING, None, (), "") or isinstance(field.default, bool)
    return (text if plain else f"{text}  [default: {field.default}]").replace("%", "%%")


def _without_none(hint: object) -> object:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        (value_type,) = (
            alternative for alternative in typing.get_args(hint) if alternative is not type(None)
        )
        return value_type
    return hint


def _build_settings(of: type[Any], values_by_name: dict[str, Any]) -> Any:  # noqa: ANN401 - an instance of ``of``
    """Build the settings; arguments that were not given keep the default of their field."""
    converted = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in values_by_name.items()
    }
    required = {
        field.name for field in dataclasses.fields(of) if field.default is dataclasses.MISSING
    }
    return of(
        **{
            name: value
            for name, value in converted.items()
            if value is not None or name in required
        }
    )
