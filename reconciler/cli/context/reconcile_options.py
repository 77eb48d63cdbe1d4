"""The options that say what a plan may do, and the ``ReconcileOptions`` they make together with the trusted configuration."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from reconciler import __version__
from reconciler.cli.options.shared import packed
from reconciler.cli.options.value_types import EntityParameter
from reconciler.errors import UsageError

if TYPE_CHECKING:
    from reconciler.cli.context.cluster_targets import ClusterTarget
    from reconciler.quota.entity import Entity
    from reconciler.quota.keys import Key
    from reconciler.quota.planner.desired_state import DesiredState
    from reconciler.quota.planner.guards import Guards
    from reconciler.quota.policy import Policy
    from reconciler.quota.results.report import RunOrigin
    from reconciler.reconcile import ReconcileOptions

F = TypeVar("F", bound=Callable[..., Any])

POLICIES: Final = ("Observe", "CreateOnly", "Upsert", "Sync")
VALIDATIONS: Final = ("auto", "broker", "sandbox", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLimitOptions:
    """What was typed about a plan's limits; ``None`` leaves the trusted configuration as it is."""

    policy: str | None
    confirm_sync: str | None
    validate: str
    only: "tuple[Entity, ...]"
    correct_drift: bool
    force: bool
    max_removals: int | None
    max_removed_percent: float | None
    max_change_factor: float | None
    max_exception_factor: float | None
    allow_newly_unlimited: bool
    allow_small_values: bool
    allow_defaults: bool
    allow_empty: bool


_OPTIONS: Final = (
    ("policy", click.option("--policy", type=click.Choice(POLICIES),
        help="Ownership policy; may only be stricter than the configured one.")),
    ("confirm_sync", click.option("--confirm-sync", metavar="CLUSTER_ID",
        help="Confirm policy Sync for the cluster with this id.")),
    ("validate", click.option("--validate", type=click.Choice(VALIDATIONS), default="auto", show_default=True,
        help="What validates the plan: the broker, the rules of the sandbox, or nothing; auto uses the broker if the principal has the right.")),
    ("only", click.option("--only", type=EntityParameter(), multiple=True, metavar="ENTITY",
        help="Plan for this entity only; may be repeated.")),
    ("correct_drift", click.option("--correct-drift", is_flag=True,
        help="Also write declared values over values that were changed outside kquota.")),
    ("force", click.option("--force", is_flag=True,
        help="Also remove own limits that were changed outside kquota.")),
    ("max_removals", click.option("--max-removals", type=click.IntRange(0), metavar="N",
        help="Maximum number of removals in one plan.")),
    ("max_removed_percent", click.option("--max-removed-percent", type=click.FloatRange(0, 100), metavar="P",
        help="Maximum removals in percent of the owned limits.")),
    ("max_change_factor", click.option("--max-change-factor", type=click.FloatRange(1), metavar="F",
        help="Largest factor by which a limit may change, up or down.")),
    ("max_exception_factor", click.option("--max-exception-factor", type=click.FloatRange(1), metavar="F",
        help="Largest factor above the default that a client may get when it is named for the first time.")),
    ("allow_newly_unlimited", click.option("--allow-newly-unlimited", is_flag=True,
        help="Allow changes that leave clients without any limit.")),
    ("allow_small_values", click.option("--allow-small-values", is_flag=True,
        help="Allow values that look like a wrong unit.")),
    ("allow_defaults", click.option("--allow-defaults", is_flag=True,
        help="Allow changes of default entities, which affect every client without a more specific quota.")),
    ("allow_empty", click.option("--allow-empty", is_flag=True,
        help="Allow a plan without any document although limits are owned.")),
)  # fmt: skip


def validate_option(function: F) -> F:
    """``--validate`` alone, for commands that pass the guards."""
    return dict(_OPTIONS)["validate"](function)


def unlimited(validate: str) -> PlanLimitOptions:
    """What was typed where nothing about guards and policy can be."""
    return PlanLimitOptions(
        policy=None, confirm_sync=None, validate=validate, only=(), correct_drift=False, force=False,
        max_removals=None, max_removed_percent=None, max_change_factor=None, max_exception_factor=None,
        allow_newly_unlimited=False, allow_small_values=False, allow_defaults=False, allow_empty=False,
    )  # fmt: skip


def limit_options(function: F) -> F:
    """The options of :class:`PlanLimitOptions`, handed over as ``limits``."""
    decorate: Callable[[F], F] = packed(
        "limits",
        PlanLimitOptions,
        [name for name, _ in _OPTIONS],
        [option for _, option in _OPTIONS],
    )
    return decorate(function)


def orders_for(
    target: "ClusterTarget",
    limits: PlanLimitOptions,
    *,
    complete: bool,
    removals_known: bool,
    origin: "RunOrigin",
    desired: "DesiredState | None" = None,
) -> "ReconcileOptions":
    """The options of this run: the trusted configuration, made stricter or opened by what was typed.

    Args:
        target: The cluster.
        limits: What was typed.
        complete: Whether every configured document was read.
        removals_known: Whether records or a revision show what we own.
        origin: Who runs this.
        desired: Where only some documents were read: nothing but their entities is written.

    Raises:
        UsageError: ``--policy`` is looser than the configured policy.
    """
    from reconciler.quota.policy import DriftMode
    from reconciler.reconcile import ReconcileOptions, ValidationMode

    settings = target.settings
    return ReconcileOptions(
        rules=settings.rules(
            policy=_policy(target, limits.policy),
            drift=DriftMode.CORRECT if limits.correct_drift else None,
            complete=complete,
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


def _policy(target: "ClusterTarget", typed: str | None) -> "Policy":
    from reconciler.quota.policy import STRICTNESS, Policy

    configured = target.settings.policy
    if typed is None:
        return configured
    policy = Policy(typed)
    if target.project is not None and STRICTNESS.index(policy) > STRICTNESS.index(configured):
        raise UsageError(
            f"--policy {policy} is looser than {configured}, which {target.project.path} says for {target.name}",
            hint="a command line may only be stricter; change the project file where it is reviewed",
        )
    return policy


def _guards(configured: "Guards", limits: PlanLimitOptions) -> "Guards":
    from reconciler.quota.planner.guards import NewlyUnlimited

    changed: dict[str, Any] = {
        name: value
        for name, value in (
            ("max_removals", limits.max_removals),
            ("max_removed_percent", limits.max_removed_percent),
            ("max_change_factor", limits.max_change_factor),
            ("max_exception_factor", limits.max_exception_factor),
            ("newly_unlimited", NewlyUnlimited.LIST if limits.allow_newly_unlimited else None),
            ("allow_small_values", limits.allow_small_values or None),
            ("protect_defaults", False if limits.allow_defaults else None),
            ("allow_empty", limits.allow_empty or None),
        )
        if value is not None
    }
    return replace(configured, **changed)


def _only(
    entities: "tuple[Entity, ...]", desired: "DesiredState | None"
) -> "Callable[[Entity, Key], bool] | None":
    """Which pairs may be written: the named entities, and those of the documents that were read."""
    wanted_entities: frozenset[Entity] | None = frozenset(entities) if entities else None
    if desired is not None:
        declared = frozenset(desired.limits)
        wanted_entities = declared if wanted_entities is None else wanted_entities & declared
    if wanted_entities is None:
        return None
    allowed = wanted_entities
    return lambda subject, _: subject in allowed


def origin_of(target: "ClusterTarget") -> "RunOrigin":
    """Who runs this, from which commit ("" where there is no repository), about which cluster."""
    from reconciler.cli.context.record_stores import current_principal
    from reconciler.quota.results.report import RunOrigin

    return RunOrigin(
        author=current_principal(),
        commit=_commit(target),
        cluster=target.name,
        tool_version=__version__,
    )


def _commit(target: "ClusterTarget") -> str:
    """The commit that the manifests were checked out from; reads no git where there is none."""
    folder = target.root.absolute()
    if not any((folder_path / ".git").exists() for folder_path in (folder, *folder.parents)):
        return ""
    from reconciler.errors import GitError
    from reconciler.git.repository import Repository

    try:
        repository = Repository.around(folder)
        return repository.commit() if repository.has_commits() else ""
    except GitError:
        return ""
