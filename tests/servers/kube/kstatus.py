"""What kstatus, the library behind `flux`, `kpt` and `helm --wait`, says about objects."""

from collections.abc import Iterable, Mapping

from tests.servers.kube.go_tools import KSTATUS, ask


def compute(objects: Iterable[Mapping[str, object]]) -> list[tuple[str, str]]:
    """Status and message of each object, in order: Current, InProgress, Failed, Terminating...

    Raises:
        GoToolFailed: one is no Kubernetes object (without kind, or not a mapping).
    """
    return [(found["status"], found["message"]) for found in ask(KSTATUS, list(objects))]
