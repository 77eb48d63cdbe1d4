"""The definition of a job: a name, settings, and a function of a session and a lake. The table of jobs is in ``jobs``.

``kquota spark NAME``, ``python -m reconciler.spark NAME`` and spark-submit run a job in the same way.
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
    """The function of a job. Its result is a frozen dataclass of bounded size, printed as JSON."""

    def __call__(
        self, spark: SparkSession, lake: "Lake", settings: S_contra, progress: Progress, /
    ) -> object:
        """Run the job and report progress with ``progress(phase, done, total)``; total 0 = unknown."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Generic[S]):
    """A job.

    Attributes:
        settings: A frozen dataclass; its fields (:func:`job_option`) are the arguments.
        example: Arguments of an example for the help, without the name and ``--lake``.
    """

    name: str
    settings: type[S]
    run: JobFunction[S]
    example: str = ""


def job_option(
    help: str,  # noqa: A002 - the name in argparse
    *,
    default: Any = dataclasses.MISSING,  # noqa: ANN401 - of the field's type
    metavar: str = "",
) -> Any:  # noqa: ANN401 - typed as a value of the field, as dataclasses.field is
    """Define a field of a job's settings that becomes an option, ``--like-this``; required without a default.

    Types: str, int, bool, ``datetime.date``, a StrEnum, each also with ``| None``, and ``tuple[str, ...]``, whose
    option may be repeated.
    """
    return dataclasses.field(default=default, metadata={HELP: help, METAVAR: metavar})


def silent(phase: str, completed: int, total: int) -> None:
    """Report no progress."""
