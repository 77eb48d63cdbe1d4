"""Builds the ``ReconcileOptions`` of a run: the trusted configuration, tightened or relaxed by typed options."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from reconciler import __version__
from reconciler.app.clusters.record_stores import current_principal
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.requests import PlanLimits
from reconciler.errors import GitError, UsageError
from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key
from reconciler.quota.planner.desired_state import DesiredState
from reconciler.quota.planner.guards import Guards, NewlyUnlimited
from reconciler.quota.policy import STRICTNESS, DriftMode, Policy
from reconciler.quota.results.report import RunOrigin
from reconciler.reconcile import ReconcileOptions, ValidationMode


def reconcile_options(
    target: ClusterTarget,
    limits: PlanLimits,
    *,
    complete: bool,
    removals_known: bool,
    origin: RunOrigin,
    desired: DesiredState | None = None,
) -> ReconcileOptions:
    """Return the options of this run: the trusted configuration, tightened or relaxed by typed options.

    Args:
        complete: Whether every configured document was read.
        removals_known: Whether records or a revision show the owned limits.
        desired: The desired state, if only some documents were read: only their entities are written.

    Raises:
        UsageError: ``--policy`` is looser than the configured policy.
    """
    settings = target.settings
    return ReconcileOptions(
        rules=settings.rules(
            policy=_policy(target, limits.policy),
            drift=DriftMode.CORRECT if limits.correct_drift else None,
            complete=complete,
            configured=bool(target.project_cluster.manifests),
            removals_known=removals_known,
            force=limits.force,
        ),
        guards=_guards(settings.guards, limits),
        expected_cluster_id=settings.expected_cluster_id or limits.confirm_sync,
        confirm_sync=limits.confirm_sync,
        validation=ValidationMode(limits.validate),
        only=_only(limits.only, None if complete else desired),
        accepted_warnings=() if target.project is None else target.project.accepted_warnings,
        origin=origin,
    )


def observing_options(target: ClusterTarget) -> ReconcileOptions:
    """Return the options of a run that compares live limits with the records, and writes no limit."""
    return ReconcileOptions(
        rules=target.settings.rules(policy=Policy.OBSERVE, drift=DriftMode.WARN),
        expected_cluster_id=target.settings.expected_cluster_id,
        assess=False,
        origin=origin_of(target),
    )


def _policy(target: ClusterTarget, typed: str | None) -> Policy:
    configured = target.settings.policy
    if typed is None:
        return configured
    policy = Policy(typed)
    if target.project is not None and STRICTNESS.index(policy) > STRICTNESS.index(configured):
        raise UsageError(
            f"--policy {policy} is less strict than {configured}, the policy of {target.name} in {target.project.path}",
            hint="the command line can only tighten the policy; change it in the project file",
        )
    return policy


def _guards(configured: Guards, limits: PlanLimits) -> Guards:
    changed: dict[str, Any] = {
        name: value
        for name, value in (
            ("max_removals", limits.max_removals),
            ("max_removed_percent", limits.max_removed_percent),
            ("max_change_factor", limits.max_change_factor),
            ("newly_unlimited", NewlyUnlimited.LIST if limits.allow_newly_unlimited else None),
            ("allow_small_values", limits.allow_small_values or None),
            ("protect_defaults", False if limits.allow_defaults else None),
            ("allow_empty", limits.allow_empty or None),
        )
        if value is not None
    }
    return replace(configured, **changed)


def _only(
    entities: tuple[Entity, ...], desired: DesiredState | None
) -> Callable[[Entity, Key], bool] | None:
    """Return the filter of writable pairs: the typed entities, and those of the documents that were read."""
    wanted_entities: frozenset[Entity] | None = frozenset(entities) if entities else None
    if desired is not None:
        declared = frozenset(desired.limits)
        wanted_entities = declared if wanted_entities is None else wanted_entities & declared
    if wanted_entities is None:
        return None
    allowed = wanted_entities
    return lambda subject, _: subject in allowed


def origin_of(target: ClusterTarget) -> RunOrigin:
    """Return who runs this, from which commit ("" without a repository), for which cluster."""
    return RunOrigin(
        author=current_principal(),
        commit=target.reads.once("commit", lambda: _commit(target)),
        cluster=target.name,
        tool_version=__version__,
    )


def _commit(target: ClusterTarget) -> str:
    """Return the commit of the checkout with the manifests; does not run git without a repository."""
    folder = target.root.absolute()
    if not any((folder_path / ".git").exists() for folder_path in (folder, *folder.parents)):
        return ""
    from reconciler.git.repository import Repository

    try:
        repository = Repository.around(folder)
        return repository.commit() if repository.has("HEAD") else ""
    except GitError:
        return ""
