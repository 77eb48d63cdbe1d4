"""What a job is: a name, settings, and a function of a session and a lake. The table of jobs is in ``jobs``.

A job is run in the same way by ``kquota spark NAME``, by ``python -m reconciler.spark NAME`` and by spark-submit.
"""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from pyspark.sql import SparkSession

from reconciler.base.protocols import Progress

if TYPE_CHECKING:
    from reconciler.evidence.store.lake import Lake

S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)

HELP: Final = "help"
METAVAR: Final = "metavar"


class JobFunction(Protocol[S_contra]):
    """The function of a job. What it gives back is a frozen dataclass of bounded size, shown as JSON."""

    def __call__(
        self, spark: SparkSession, lake: "Lake", settings: S_contra, progress: Progress
    ) -> object:
        """Do it. ``progress(phase, done, total)`` says how far; total 0 = not known."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Generic[S]):
    """One job.

    Attributes:
        settings: A frozen dataclass; its fields (:func:`job_option`) are the arguments.
        example: Arguments of one run, for the help: what follows the name and ``--lake``.
    """

    name: str
    settings: type[S]
    run: JobFunction[S]
    example: str = ""


def job_option(
    help: str,  # noqa: A002 - what argparse calls it
    *,
    default: Any = dataclasses.MISSING,  # noqa: ANN401 - of the field's type
    metavar: str = "",
) -> Any:  # noqa: ANN401 - stands for a value of the field's type, as dataclasses.field does
    """A field of a job's settings that becomes an argument: ``--like-this``; required without a default.

    Types: str, int, bool, ``datetime.date``, a StrEnum, each also with ``| None``, and ``tuple[str, ...]``, whose
    argument may be repeated.
    """
    return dataclasses.field(default=default, metadata={HELP: help, METAVAR: metavar})


def silent(phase: str, completed: int, total: int) -> None:
    """Progress that is not reported."""
