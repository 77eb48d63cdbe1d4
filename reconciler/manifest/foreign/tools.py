"""The table of tools whose formats can be read."""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from reconciler.errors import ManifestErrors, Problem, UsageError
from reconciler.manifest.document import DEFAULT_NAMESPACE
from reconciler.manifest.foreign import jikkou, kafka_configs, rpk, strimzi, terraform
from reconciler.manifest.foreign.collector import Files, ImportCollector, ImportResult


class ClusterFormat(Struct, frozen=True, kw_only=True, gc=False):
    """A format whose files may be for several clusters."""

    # Reads the quotas of all clusters in the files, or of one, by the tool's own name of it.
    read: Callable[[Files, ImportCollector, str | None], None]
    cluster: str  # the tool's term for a cluster


TOOLS: Final[Mapping[str, Callable[[Files, ImportCollector], None] | ClusterFormat]] = {
    "kafka-configs": kafka_configs.read,
    "rpk": rpk.read,
    "jikkou": jikkou.read,
    "strimzi": ClusterFormat(read=strimzi.read, cluster="the label strimzi.io/cluster"),
    "terraform": ClusterFormat(read=terraform.read, cluster="the provider in a state file"),
}
"""Each tool with its reader."""


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
        source_cluster: One of the tool's clusters, if its files are for several.

    Raises:
        ManifestErrors: A text does not have the tool's format.
        UsageError: The tool does not distinguish clusters.
    """
    collector = ImportCollector(namespace=namespace)
    reader = TOOLS[tool]
    if isinstance(reader, ClusterFormat):
        reader.read(files, collector, source_cluster)
    elif source_cluster is None:
        reader(files, collector)
    else:
        raise UsageError(f"files of {tool} are for one cluster; remove --source-cluster")
    message = f"nothing about quotas as {tool} writes them"
    imported = collector.result()
    if not (imported.declarations or imported.losses or imported.notes):
        raise ManifestErrors([Problem(path, 0, 0, message) for path, _ in files])
    collector.lose_files_without_content(files, message)
    return collector.result()
