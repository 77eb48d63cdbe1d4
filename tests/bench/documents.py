"""Loading 10,000 manifest documents to a desired state with provenance, against a plain YAML loader."""

from collections.abc import Callable
from pathlib import Path

DOCUMENTS = 10_000
DOCUMENTS_A_FILE = 100

DOCUMENT = """\
apiVersion: kafka-quotas.io/v1alpha1
kind: ClientQuota
metadata:
  name: client-{number:05d}
  namespace: team-{team:02d}
spec:
  clusterRef:
    name: bench
  entity:
    user:
      name: user-{number:05d}
    clientId:
      name: client-{number:05d}
  limits:
    producerByteRate: {producer}
    consumerByteRate: {consumer}Ki
    requestPercentage: {percent}.5
"""


def write_manifests(folder: Path, *, offset: int = 0) -> None:
    """100 files of 100 documents; ``offset`` shifts every value, so that all of them change."""
    folder.mkdir(parents=True, exist_ok=True)
    for first in range(0, DOCUMENTS, DOCUMENTS_A_FILE):
        documents = [
            DOCUMENT.format(
                number=number,
                team=number // 1000,
                producer=1_000_000 + number + offset,
                consumer=2_000 + number + offset,
                percent=50 + offset + number % 50,
            )
            for number in range(first, first + DOCUMENTS_A_FILE)
        ]
        (folder / f"quotas-{first:05d}.yaml").write_text("---\n".join(documents), encoding="utf-8")


def texts(folder: Path) -> list[tuple[str, str]]:
    return [(path.name, path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.yaml"))]


def manifest_reader(folder: Path) -> Callable[[], object]:
    from reconciler.manifest.loader import load_files
    from reconciler.quota.planner.desired_state import merge

    files = texts(folder)

    def work() -> object:
        loaded = load_files(files)
        desired = merge(loaded.by_cluster["bench"])
        if len(desired.limits) != DOCUMENTS or loaded.problems:
            raise SystemExit(f"{len(desired.limits)} entities, {loaded.problems[:3]}")
        return desired

    return work


def bare_loader(folder: Path) -> Callable[[], object]:
    import yaml

    files = texts(folder)

    def work() -> object:
        loaded = [
            document
            for _, text in files
            for document in yaml.load_all(text, Loader=yaml.CSafeLoader)
        ]
        if len(loaded) != DOCUMENTS:
            raise SystemExit(f"{len(loaded)} documents")
        return loaded

    return work


CANDIDATES: dict[str, Callable[[Path], Callable[[], object]]] = {
    "ours": manifest_reader,
    "yaml.CSafeLoader": bare_loader,
}
