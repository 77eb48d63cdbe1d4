"""What runs as a job: a function of a session, a lake and settings. The jobs are in ``jobs``."""

from typing import TYPE_CHECKING, Protocol, TypeVar

from pyspark.sql import SparkSession

from reconciler.base.protocols import Progress

if TYPE_CHECKING:
    from reconciler.evidence.store.lake import Lake

S_contra = TypeVar("S_contra", contravariant=True)


class JobFunction(Protocol[S_contra]):
    """The function of a job. Its result is a frozen dataclass of bounded size."""

    def __call__(
        self, spark: SparkSession, lake: "Lake", settings: S_contra, progress: Progress, /
    ) -> object:
        """Run the job and report progress with ``progress(phase, done, total)``; total 0 = unknown."""
        ...


def silent(phase: str, completed: int, total: int) -> None:
    """Report no progress."""
