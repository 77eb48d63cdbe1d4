"""Exports live quotas as manifests: names documents, divides them into files, writes them."""

from collections.abc import Callable, Iterable
from pathlib import Path

from reconciler.app.clusters.runtime import connected, expected_cluster
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.notices import TextReceiver
from reconciler.app.requests import ExportLayout
from reconciler.base.escaping import escaped
from reconciler.base.text_files import write_new
from reconciler.errors import QuotaValueError, UsageError
from reconciler.manifest import writer
from reconciler.manifest.export.files import Split, Team, file_names
from reconciler.manifest.writer import ExportResult, OmittedQuota
from reconciler.quota.entity_forms import parts_text
from reconciler.quota.state import QuotaState
from reconciler.render.units import number


async def live_state(notices: TextReceiver, target: ClusterTarget) -> QuotaState:
    """Describe all quotas of the target's cluster."""
    async with connected(notices, target) as client:
        _ = await expected_cluster(client, target)
        return await client.describe()


def teams_of(layout: ExportLayout) -> tuple[Team, ...]:
    """Parse the values of ``--team``.

    Raises:
        UsageError: One is not PREFIX=NAMESPACE.
    """
    teams: list[Team] = []
    for text in layout.team:
        prefix, _, namespace = text.rpartition("=")
        try:
            teams.append(Team(prefix=prefix, namespace=namespace))
        except QuotaValueError as error:
            raise UsageError(
                f"--team {text!r}: {error.message}",
                hint="write PREFIX=NAMESPACE, such as etl-=analytics",
            ) from error
    return tuple(teams)


def exported_state(
    target: ClusterTarget,
    state: QuotaState,
    layout: ExportLayout,
    *,
    progress: Callable[[str, int, int], None],
    existing_names: Iterable[str] = (),
) -> ExportResult:
    """Convert quotas to documents for the target.

    Args:
        progress: Called with a phase, its finished and its total number.
    """
    return writer.export(
        state,
        cluster=target.name,
        namespace=layout.namespace,
        teams=teams_of(layout),
        existing_names=existing_names,
        progress=lambda done, total: progress("export", done, total),
    )


def write_folder(folder: Path, exported: ExportResult, layout: ExportLayout) -> int:
    """Write the documents to the files of the layout.

    Returns:
        The number of written files.

    Raises:
        UsageError: One of the files exists with other content; then none was written.
    """
    texts: dict[Path, list[str]] = {}
    for name, text in zip(_files(exported, layout), exported.texts, strict=True):
        texts.setdefault(folder / name, []).append(text)
    write_new({path: "".join(documents) for path, documents in texts.items()})
    return len(texts)


def unused_folder(folder: Path, exported: ExportResult, layout: ExportLayout) -> Path:
    """Return the folder, or its first numbered subfolder, in which none of the files exists."""
    names = _files(exported, layout)
    folders = (folder, *(folder / f"adopted-{number}" for number in range(1, 10_000)))
    return next(
        candidate for candidate in folders if not any((candidate / name).exists() for name in names)
    )


def _files(exported: ExportResult, layout: ExportLayout) -> tuple[str, ...]:
    return file_names(exported.declarations, Split(layout.split), teams_of(layout))


def left_out_lines(left_out: Iterable[OmittedQuota]) -> list[str]:
    """Return an escaped line for each quota that no manifest can express."""
    return [
        f"{parts_text(omitted.entity)} {escaped(omitted.key)}={number(omitted.value)}: {escaped(omitted.reason)}"
        for omitted in left_out
    ]
