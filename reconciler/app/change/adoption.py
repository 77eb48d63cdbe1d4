"""Selects the quotas for ``kquota adopt``: live quotas in the scope of a cluster that no manifest of its project declares."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path

from reconciler.app.clusters.documents import load_loosely
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.base.clock import SystemClock
from reconciler.errors import UsageError
from reconciler.manifest.files import FileTexts
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.policy import Policy
from reconciler.quota.state import QuotaState, set_values


def undeclared(
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
        raise UsageError(
            "adopt needs a project, and there is none",
            hint="run kquota init first, or export without a project: kquota export --out-dir",
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
    """Return the project's declarations; none if its manifests do not exist yet.

    Raises:
        ManifestErrors: A document is invalid.
    """
    if not any((target.root / path).exists() for path in target.project_cluster.manifests):
        return load_loosely(target, (), FileTexts(files=(), problems=())).declarations
    return load_loosely(target, ()).checked().declarations
