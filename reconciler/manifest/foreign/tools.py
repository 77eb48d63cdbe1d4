"""The table of tools whose formats can be read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from reconciler.errors import ManifestErrors, Problem, UsageError
from reconciler.manifest.document import DEFAULT_NAMESPACE
from reconciler.manifest.foreign import (
    ansible,
    helmsman,
    jikkou,
    julie,
    kafka_configs,
    kafka_ui,
    rpk,
    strimzi,
    terraform,
)
from reconciler.manifest.foreign.collector import (
    Files,
    ImportCollector,
    ImportResult,
)


class FormatReader(Protocol):
    """Reads a tool's files into a collector; ``cluster`` is the tool's own name of a cluster."""

    def __call__(self, files: Files, collector: ImportCollector, *, cluster: str | None) -> None:
        """Read the quotas in the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTool:
    """One tool.

    Attributes:
        read: Its reader.
        cluster: The tool's term for a cluster; "" if its files are always for one.
    """

    read: FormatReader
    cluster: str = ""


TOOLS: Final[Mapping[str, ForeignTool]] = {
    "kafka-configs": ForeignTool(read=kafka_configs.read),
    "rpk": ForeignTool(read=rpk.read),
    "jikkou": ForeignTool(read=jikkou.read),
    "strimzi": ForeignTool(read=strimzi.read, cluster="the label strimzi.io/cluster"),
    "terraform": ForeignTool(read=terraform.read, cluster="the provider, as kafka.prod"),
    "ansible": ForeignTool(read=ansible.read),
    "helmsman": ForeignTool(read=helmsman.read, cluster="its --cluster"),
    "julie": ForeignTool(read=julie.read),
    "kafka-ui": ForeignTool(read=kafka_ui.read),
}


def read_files(
    tool: str,
    files: Files,
    *,
    namespace: str = DEFAULT_NAMESPACE,
    source_cluster: str | None = None,
) -> ImportResult:
    """Read the files of a tool.

    Args:
        tool: A name in :data:`TOOLS`.
        files: ``(path, text)``; the path is only for display.
        namespace: Namespace of the documents.
        source_cluster: One of the tool's clusters, if its files are for several.

    Raises:
        ManifestErrors: A text does not have the tool's format.
        UsageError: The tool does not distinguish clusters.
    """
    foreign_tool = TOOLS[tool]
    if source_cluster is not None and not foreign_tool.cluster:
        raise UsageError(f"files of {tool} are for one cluster; remove --source-cluster")
    collector = ImportCollector(namespace=namespace)
    foreign_tool.read(files, collector, cluster=source_cluster)
    imported = collector.result()
    if not (imported.declarations or imported.losses or imported.notes):
        problems = [
            Problem(path, 0, 0, f"nothing about quotas as {tool} writes them") for path, _ in files
        ]
        raise ManifestErrors(problems)
    return imported
