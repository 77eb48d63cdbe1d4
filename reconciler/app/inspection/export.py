"""Exports live quotas as manifests, for ``kquota adopt`` only those in scope that no manifest of the project declares."""

from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

from reconciler.app.clusters.documents import load_loosely, read_first_texts
from reconciler.app.clusters.runtime import connect_client, expected_cluster, read_only_inventory
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.notices import TextReceiver
from reconciler.app.requests import ExportLayout
from reconciler.base.clock import SystemClock
from reconciler.base.escaping import escaped
from reconciler.base.text_files import write_new
from reconciler.errors import QuotaValueError, UsageError
from reconciler.manifest import writer
from reconciler.manifest.export import Split, Team, file_names
from reconciler.manifest.writer import ExportResult, OmittedQuota
from reconciler.quota.entity import entity_text, parts_text
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.policy import Policy
from reconciler.quota.state import QuotaState, set_values
from reconciler.render.units import number, quantity


async def lasting_state(notices: TextReceiver, target: ClusterTarget) -> QuotaState:
    """Describe all quotas of the target's cluster; name the temporary limits of kquota, which have the value from before.

    A document with a temporary value would make it permanent.
    """
    async with connect_client(notices, target) as client:
        cluster = await expected_cluster(client, target)
        state = await client.describe()
    owned = await read_only_inventory(target, SystemClock()).load(cluster.id)
    temporary = [
        override
        for pair, override in owned.overrides.items()
        if override.has_written(state.value(*pair))
    ]
    for override in temporary:
        notices.warning(
            f"{entity_text(override.entity)}, {override.key}: the live value is temporary ({override.words}); documents get the"
            f" value from before it: {quantity(override.key, override.before)}"
        )
    return state.with_values((*override.pair, override.before) for override in temporary)


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
    return next(
        candidate
        for candidate in (folder, *(folder / f"adopted-{number}" for number in range(1, 10_000)))
        if not any((candidate / name).exists() for name in names)
    )


def _files(exported: ExportResult, layout: ExportLayout) -> tuple[str, ...]:
    return file_names(exported.declarations, Split(layout.split), teams_of(layout))


def left_out_lines(left_out: Iterable[OmittedQuota]) -> list[str]:
    """Return an escaped line for each quota that no manifest can express."""
    return [
        f"{parts_text(omitted.entity)} {escaped(omitted.key)}={number(omitted.value)}: {escaped(omitted.reason)}"
        for omitted in left_out
    ]


def select_undeclared(
    live: QuotaState, target: ClusterTarget, declarations: Iterable[Declaration]
) -> QuotaState:
    """Return the live quotas without declared ones, those outside of the cluster's scope, and those that its rules ignore."""
    rules, now = target.settings.rules(), SystemClock().now()
    inside = {subject: limits for subject, limits in live.limits.items() if rules.in_scope(subject)}
    ignored = (
        (subject, key)
        for subject, limits in inside.items()
        for key, _ in set_values(limits)
        if rules.ignored(subject, key, now) is not None
    )
    declared = (
        (declaration.entity, key)
        for declaration in declarations
        if not declaration.has_ended(now)
        for key, _ in set_values(declaration.limits)
    )
    return replace(live, limits=inside).with_values(
        (subject, key, None) for subject, key in chain(ignored, declared)
    )


def manifest_folder(target: ClusterTarget) -> Path:
    """Return the first folder of the project's manifests.

    Raises:
        UsageError: The target has no project, has policy Sync, or lists no folder.
    """
    if target.project is None:
        name = () if target.name else ("--cluster", "NAME")
        raise UsageError(
            "adopt needs a project, and there is none",
            hint="run kquota init first, or export without a project:"
            f" `{target.command('export', *name, '--out-dir', 'FOLDER')}`",
        )
    if target.settings.policy is Policy.SYNC:
        raise UsageError(
            f"the policy of {target.name} is Sync, which removes what no manifest declares",
            hint="set policy: Observe or policy: Upsert in the project file until the plan is empty",
        )
    for path in target.project_cluster.manifests:
        if not path.endswith((".yaml", ".yml")) and not set(path) & set("*?["):
            return target.root / path
    raise UsageError(
        f"spec.manifests of {target.project.path} lists no folder",
        hint="pass a folder with --out-dir",
    )


def declarations_of(target: ClusterTarget) -> tuple[Declaration, ...]:
    """Return the project's declarations; none if it has no manifests yet.

    Raises:
        ManifestErrors: A document is invalid.
    """
    texts = read_first_texts(target)
    return () if texts is None else load_loosely(target, (), texts).checked().declarations
