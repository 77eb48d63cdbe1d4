"""Starts and ends overrides: temporary values, prepared against documents or records, then applied."""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from reconciler.app.change.apply import ApplyRun, prepared_run
from reconciler.app.change.plan_preparation import limit_findings, reconcile_options
from reconciler.app.clusters.documents import documents_or_warning
from reconciler.app.clusters.runtime import (
    Runtime,
    connect_client,
    current_principal,
    expected_cluster,
    read_only_inventory,
)
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.notices import Notices
from reconciler.app.requests import PlanRequest, RecordUse
from reconciler.base.clock import SystemClock
from reconciler.codecs.outcome import RollbackSource
from reconciler.errors import PlanRefused
from reconciler.quota.entity import Entity, entity_text, sort_key
from reconciler.quota.keys import Key
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import Pair
from reconciler.quota.planner.desired_state import DesiredState
from reconciler.quota.planner.guards import Violation
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.planner.temporary_limits import without_refused
from reconciler.quota.policy import Policy
from reconciler.quota.results.report import Preview
from reconciler.reconcile import (
    NewOverride,
    Observation,
    PreparedPlan,
    ReconcileOptions,
    observe,
    preview,
    rollback_orders,
)
from reconciler.reconcile.drift import as_applied
from reconciler.reconcile.observation import check_cluster, check_override_values, rules_for
from reconciler.reconcile.validation import validate as validate_alterations


class OverrideChange(Struct, frozen=True, kw_only=True):
    """Overrides that start or end; their pairs are all that may be written."""

    # Returns the overrides that start; called with the observation, for times and previous values.
    begin: Callable[[Observation], tuple[NewOverride, ...]] = lambda _: ()
    end: frozenset[Pair] = frozenset()  # pairs whose override ends now
    # Whether the expected values are restored where an override has expired and is still live.
    reverts_expired: bool = False
    # The cluster id that must answer, besides the configured one; None = any.
    cluster_id: str | None = None
    known_entity: Entity | None = None  # must have a limit, a document or a record; None = any

    @classmethod
    def beginning(
        cls,
        entity: Entity,
        values: Mapping[Key, float | None],
        *,
        seconds: float,
        reason: str,
        is_new: bool,
    ) -> "OverrideChange":
        """Start overrides of one entity now.

        Args:
            values: The limits; ``None`` removes one for that time.
            is_new: Whether the entity may be one without limit, document and record.
        """
        principal = current_principal()

        def begin(observation: Observation) -> tuple[NewOverride, ...]:
            return tuple(
                NewOverride(
                    entity=entity,
                    key=key,
                    value=value,
                    until=observation.at + seconds,
                    principal=principal,
                    reason=reason,
                )
                for key, value in values.items()
            )

        return cls(begin=begin, known_entity=None if is_new else entity)

    @classmethod
    def rolling_back(
        cls, source: RollbackSource, *, seconds: float, reason: str
    ) -> "OverrideChange":
        """Restore the values from before an apply as overrides that end when their documents agree."""

        def begin(observation: Observation) -> tuple[NewOverride, ...]:
            return rollback_orders(
                source.changes,
                now=observation.at,
                principal=current_principal(),
                reason=reason,
                seconds=seconds,
            )

        return cls(begin=begin, cluster_id=source.cluster_id)


@contextlib.asynccontextmanager
async def override_run(
    notices: Notices,
    target: ClusterTarget,
    *,
    change: OverrideChange,
    validate: str,
    any_value: bool = False,
    command: str = "override",
    next_words: Sequence[str] = ("override", "list"),
) -> AsyncIterator[ApplyRun]:
    """Prepare a plan of only these pairs, ready to be applied inside the context.

    Args:
        any_value: Whether values outside the bounds, or like a slip of the unit, are allowed.
        command: Name of the command, for the lock and the outcome.
        next_words: The command to run after an incomplete run.

    Raises:
        PlanRefused: The policy in force writes nothing.
        WrongCluster: The change is for another cluster.
    """

    async def prepare(runtime: Runtime) -> tuple[ReconcileOptions, PreparedPlan]:
        return await _prepare_override(
            notices, target, runtime, change, PlanRequest(validate=validate), any_value=any_value
        )

    async with prepared_run(
        notices,
        target,
        RecordUse.ANY,
        prepare,
        command=command,
        next_command=target.command(*next_words),
    ) as run:
        yield run


async def overrides_of(notices: Notices, target: ClusterTarget) -> tuple[str, dict[Pair, Override]]:
    """Return cluster id and overrides, sorted; the cluster is queried because records are stored by cluster id."""
    async with connect_client(notices, target) as client:
        cluster = await expected_cluster(client, target)
    owned = await read_only_inventory(target, SystemClock()).load(cluster.id)
    begun = [pair for pair, item in owned.overrides.items() if not item.document or item.is_written]
    pairs = sorted(begun, key=lambda pair: (sort_key(pair[0]), pair[1]))
    return cluster.id, {pair: owned.overrides[pair] for pair in pairs}


async def _prepare_override(
    notices: Notices,
    target: ClusterTarget,
    runtime: Runtime,
    change: OverrideChange,
    request: PlanRequest,
    *,
    any_value: bool,
) -> tuple[ReconcileOptions, PreparedPlan]:
    options = reconcile_options(target, request)
    observation = await observe(runtime.ports, options)
    # Not instead of the configured id: the values of one cluster must not reach another that the project also names.
    check_cluster(observation.cluster_id, change.cluster_id)
    if rules_for(options, observation).in_force is Policy.OBSERVE:
        raise PlanRefused(
            f"policy Observe is in force for {target.display_name}: nothing may be written"
        )
    orders, overrides = change.begin(observation), observation.owned.overrides
    pairs = change.end.union((order.entity, order.key) for order in orders)
    if change.reverts_expired:
        pairs |= {pair for pair in overrides if observation.at >= overrides[pair].until}
    options = replace(
        options,
        overrides=orders,
        ended=change.end,
        only=lambda subject, key: (subject, key) in pairs,
        own_principal=runtime.own_principal,
    )
    desired = documents_or_warning(notices, target)
    _check_known(change.known_entity, observation, desired)
    if desired is None:
        desired = as_applied(observation)
        # None of the limits is known to have lost its document.
        options = replace(options, rules=replace(options.rules, complete=False))
    compute = partial(preview, observation, desired, options)
    prepared = compute()
    if not any_value:
        check_override_values(prepared.plan.changes, options.guards)
    if options.overrides:  # What documents declare under them is judged when that is planned.
        plan = replace(prepared.plan, pending=())
        prepared = compute(plan=plan, override_changes=prepared.override_changes)
    # Otherwise a document could keep an override in force after its end.
    while not options.overrides and (refused := _refused_changes(prepared.preview)):
        for refused_change, violation in refused.items():
            notices.warning(
                f"{entity_text(refused_change.entity)}: the override ends without the change that is declared, because a guard"
                f" refuses it: {violation.message}"
            )
        owned = observation.owned.with_changes(prepared.override_changes)
        plan = without_refused(prepared.plan, refused, owned, now=observation.at)
        prepared = compute(plan=plan, override_changes=prepared.override_changes)
    verdict = await validate_alterations(runtime.ports, options, observation, prepared.plan.changes)
    # What refuses a whole plan, such as an empty set of documents, concerns its removals; none remains.
    violations = tuple(
        violation for violation in prepared.preview.violations if violation.entity is not None
    )
    prepared = limit_findings(
        replace(
            prepared, preview=replace(prepared.preview, verdict=verdict, violations=violations)
        ),
        options,
    )
    return options, prepared


def _check_known(
    entity: Entity | None, observation: Observation, desired: DesiredState | None
) -> None:
    """Check that an entity has a limit, a document, a record or a SCRAM login.

    Raises:
        PlanRefused: It has none, so its name is probably wrong.
    """
    if entity is None or entity in observation.live.limits or entity in observation.owned.records:
        return
    is_declared = desired is not None and any(
        entity == declaration.entity for declaration in desired.declarations
    )
    if not is_declared and entity[0] not in observation.scram_users:
        raise PlanRefused(
            f"{entity_text(entity)} has neither a limit nor a document, so its name may be mistyped",
            hint="kquota describe lists the limits; if the name is right, pass --new-entity",
        )


def _refused_changes(preview_result: Preview) -> dict[QuotaChange, Violation]:
    """Return the changes that guards refuse."""
    violations = {
        ((violation.entity, violation.key), violation.cause): violation
        for violation in preview_result.violations
    }
    return {
        change: violations[change.pair, change.cause]
        for change in preview_result.plan.reviewed
        if (change.pair, change.cause) in violations
    }
