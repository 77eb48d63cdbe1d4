"""The command line of ``python -m reconciler.spark``: arguments made from the fields of a job's settings."""

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
from reconciler.spark import jobs, session
from reconciler.spark.job import HELP, METAVAR, Job

PROGRAM: Final = "python -m reconciler.spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A command line, understood."""

    job: Job[Any]
    lake: str
    output: Path | None
    session: session.Settings
    settings: object


class _Parser(argparse.ArgumentParser):
    """Wrong arguments are errors of ours: the same words and exit code as everywhere."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"{self.prog} --help")


def parsed(words: Sequence[str]) -> Asked:
    """Understand a command line.

    Raises:
        UsageError: It is wrong.
        SystemExit: It asked for help, which was printed.
    """
    parser = _Parser(
        prog=PROGRAM,
        description="Runs one job over recorded use.",
        epilog=_listed(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("job", choices=list(jobs.SUMMARIES), metavar="JOB", help="what to do")
    name = parser.parse_args(words[:1]).job
    job = jobs.named(name)
    given = vars(_parser(job).parse_args(words[1:]))
    output: Path | None = given.pop("output")
    if output is not None and (output.is_dir() or not output.parent.is_dir()):
        # Asked here, because a job of hours would end without a result.
        raise UsageError(f"--output {output}: no file can be written there")
    return Asked(
        job=job,
        lake=given.pop("lake"),
        output=output,
        session=_made(
            session.Settings,
            {
                one.name: given.pop(f"session_{one.name}")
                for one in dataclasses.fields(session.Settings)
            },
        ),
        settings=_made(job.settings, given),
    )


def _listed() -> str:
    width = max(map(len, jobs.SUMMARIES))
    lines = [f"  {name:{width}}  {summary}" for name, summary in jobs.SUMMARIES.items()]
    return "\n".join(
        ("jobs:", *lines, "", "Example:", f"  {PROGRAM} rollup --lake ./lake",
         "  spark-submit --py-files WHEEL reconciler/spark/__main__.py rollup --lake s3://metrics/kquota")
    )  # fmt: skip


def _parser(job: Job[Any]) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=f"{PROGRAM} {job.name}",
        description=job.summary,
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
        help="write the result here and not to stdout, into which spark-submit mixes progress",
    )
    where = parser.add_argument_group("where it runs; leave this out under spark-submit")
    for option, metavar, text in (
        ("master", "URL", "a Spark master, such as local[4] or spark://host:7077"),
        ("remote", "sc://HOST", "a Spark Connect server"),
        ("memory", "SIZE", "heap of the JVM that is started here, such as 4g"),
    ):
        where.add_argument(f"--{option}", dest=f"session_{option}", metavar=metavar, help=text)
    where.add_argument(
        "--no-archive",
        dest="session_archive",
        action="store_false",
        help="start the JVM without a class-data archive",
    )
    where.add_argument(
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
    """One argument of one field. A list is gathered by argparse and made a tuple when the settings are built."""
    option = f"--{field.name.replace('_', '-')}"
    required = field.default is dataclasses.MISSING
    more: dict[str, Any] = {
        "dest": field.name,
        "help": _help(field),
        "default": None if required else field.default,
    }
    inner = _without_none(hint)
    if inner is bool:
        parser.add_argument(option, action=argparse.BooleanOptionalAction, **more)
        return
    if field.metadata.get(METAVAR):
        more["metavar"] = field.metadata[METAVAR]
    if typing.get_origin(inner) is tuple:
        more["default"] = None
        parser.add_argument(option, action="append", required=required, **more)
    elif isinstance(inner, type) and issubclass(inner, enum.StrEnum):
        parser.add_argument(option, type=inner, choices=list(inner), required=required, **more)
    else:
        parser.add_argument(option, type=_READERS[inner], required=required, **more)


def _day(text: str) -> dt.date:
    return dt.date.fromisoformat(text)


_day.__name__ = "day (YYYY-MM-DD)"  # argparse names the type in its complaint

_READERS: Final[dict[object, Any]] = {str: str, int: int, dt.date: _day}


def _help(field: "dataclasses.Field[Any]") -> str:
    text = str(field.metadata[HELP])
    plain = field.default in (dataclasses.MISSING, None, (), "") or isinstance(field.default, bool)
    return (text if plain else f"{text}  [default: {field.default}]").replace("%", "%%")


def _without_none(hint: object) -> object:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        (found,) = (one for one in typing.get_args(hint) if one is not type(None))
        return found
    return hint


def _made(of: type[Any], given: dict[str, Any]) -> Any:  # noqa: ANN401 - an instance of what is asked for
    """The settings; what was not typed is the default of the field."""
    taken = {name: tuple(one) if isinstance(one, list) else one for name, one in given.items()}
    required = {one.name for one in dataclasses.fields(of) if one.default is dataclasses.MISSING}
    return of(**{name: one for name, one in taken.items() if one is not None or name in required})
