"""The status that kstatus, the library of `flux`, `kpt` and `helm --wait`, computes for objects."""

from collections.abc import Iterable, Mapping

from tests.servers.kube.go_tools import KSTATUS, ask


def compute(objects: Iterable[Mapping[str, object]]) -> list[tuple[str, str]]:
    """Return status and message of each object, in order: Current, InProgress, Failed, Terminating...

    Raises:
        GoToolFailed: One is not a Kubernetes object (without kind, or not a mapping).
    """
    return [(status["status"], status["message"]) for status in ask(KSTATUS, list(objects))]
