"""``--evidence``: judges a plan by recorded use. Opens the root of previews and reads only what the plan changes."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from reconciler.app.clusters.targets import place_of
from reconciler.app.notices import Notices, TextReceiver
from reconciler.app.requests import AUTO, EvidenceRequest
from reconciler.base.installation import needs
from reconciler.errors import ClientError, ConfigError, LakeError, QuotaValueError, UsageError
from reconciler.evidence.store.compiled_code import keep_compiled_code
from reconciler.quota.planner.budgets import BudgetMeasure, BudgetUse
from reconciler.quota.planner.plan import apply_to

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from reconciler.app.change.plan_preparation import PlanTask
    from reconciler.app.clusters.targets import ClusterTarget
    from reconciler.app.clusters.trusted_files import TrustedFiles
    from reconciler.client import QuotaClient
    from reconciler.evidence.store.published_evidence import PublishedEvidence
    from reconciler.quota.planner.desired_state import Declaration
    from reconciler.quota.results.report import Preview
    from reconciler.reconcile import PreparedPlan
    from reconciler.render.recorded_use import RecordedUse
    from reconciler.usage.impact.query import ImpactQuery
    from reconciler.usage.impact.result_rows import EvidenceNote, ImpactRow, Simulation
    from reconciler.usage.impact.tier_policy import WhatIfPolicy

MAX_AGE_S: Final = 48 * 3600.0
"""Default maximum age of evidence (telemetry.maxEvidenceAge)."""

AT_ONCE: Final = 24
"""Series in memory at one time: a million samples of a fortnight at 30 s, some 100 MB."""

MOST_SERIES: Final = 600
"""More series need `kquota usage simulate`: these are 24 million samples."""


def recorded_use(simulation: "Simulation | None", preview: "Preview") -> "RecordedUse | None":
    """Return the effect of a plan by recorded use as text; ``None`` = not requested."""
    if simulation is None:
        return None
    from reconciler.render.use.simulation_text import recorded_of

    return recorded_of(simulation, at=preview.created_at)


def address_of(target: "ClusterTarget", evidence_request: EvidenceRequest) -> str:
    """Return the address of a cluster's evidence; "" if there is none, or none that is trusted.

    Raises:
        ConfigError: The trusted configuration refers to a folder of the checkout.
    """
    if evidence_request.no_evidence:
        return ""
    if evidence_request.evidence != AUTO:
        return evidence_request.evidence
    if not target.is_trusted:
        return ""
    address = place_of(target.root, str(target.settings.telemetry.get("evidenceUri", "")))
    if address and target.files is not None:
        _check_outside(target.files, address)
    return address


def _check_outside(files: "TrustedFiles", address: str) -> None:
    """Check that evidence is not a folder of the checkout, which the head revision could fill."""
    from reconciler.evidence.store.files import address as addresses

    place = addresses.parsed(address)
    if place.scheme == addresses.FOLDER and files.name_of(Path(place.root or "/")) is not None:
        raise ConfigError(
            "telemetry.evidenceUri is a folder of the checkout, which is not trusted with --config-from",
            location=place.redacted_text,
            hint="publish evidence outside of the repository, or plan with --no-evidence",
        )


def simulate_plan(
    notices: Notices,
    task: "PlanTask",
    prepared: "PreparedPlan",
    evidence_request: EvidenceRequest,
    callback: str | None = None,
) -> "PlanEvidence | None":
    """Judge a plan by recorded use; ``None`` if evidence was not requested, or nothing changes.

    Args:
        callback: The custom quota callback of the brokers, if they have one.

    Raises:
        UsageError: The extra ``usage`` is missing, and evidence was requested explicitly.
        LakeError: A typed address is invalid.
    """
    if not prepared.plan.changes:
        return None
    target = task.target
    address = address_of(target, evidence_request)
    if not address and not evidence_request.require_evidence:
        return None
    if address and (evidence_request.require_evidence or evidence_request.evidence != AUTO):
        needs("usage", "--evidence")
    policy = policy_of(notices, task, prepared.plan.cluster_id)
    published = _open_published(target, prepared, evidence_request, address)
    if published.note.stale:
        notices.warning(f"evidence of {target.display_name}: {published.note.stale}")
    return PlanEvidence(
        simulation=_simulate(prepared, published, policy, callback),
        preview=_with_observed_budgets(prepared, published),
    )


def _with_observed_budgets(
    prepared: "PreparedPlan", published: "PublishedEvidence | EvidenceUnavailable"
) -> "Preview":
    """Return the plan with budgets compared with recorded use, as far as they ask for it."""
    preview = prepared.preview
    if not any(
        use.budget.basis is BudgetMeasure.OBSERVED or use.is_exceeded for use in preview.budgets
    ):
        return preview
    before = prepared.observation.live
    if isinstance(published, EvidenceUnavailable) or published.note.stale:
        return preview.with_budgets(_with_note(preview.budgets, published.note.stale))
    from reconciler.evidence.analysis.budget_loads import observed_uses

    after = apply_to(before, prepared.plan.changes)
    return preview.with_budgets(observed_uses(published, preview.budgets, before, after))


def _with_note(uses: tuple[BudgetUse, ...], note: str) -> tuple[BudgetUse, ...]:
    """Return the uses with the reason why those that ask for recorded use are promised sums."""
    return tuple(use if use.is_judged else structs.replace(use, note=note) for use in uses)


async def quota_callback(client: "QuotaClient") -> str | None:
    """Return the custom quota callback of the brokers; without permission to read it Kafka's own rules are assumed."""
    try:
        return await client.quota_callback()
    except ClientError:
        return None


def policy_of(notices: Notices, task: "PlanTask", cluster_id: str) -> "WhatIfPolicy":
    """Return the trusted what-if policy, with the tiers that documents refer to."""
    project = task.target.project
    documents = {cluster_id: task.desired.declarations}
    return what_if_policy(notices, {} if project is None else project.simulate, documents)


def what_if_policy(
    notices: TextReceiver,
    simulate_spec: "Mapping[str, object]",
    declared: "Mapping[str, Iterable[Declaration]]",
) -> "WhatIfPolicy":
    """Return the what-if policy of ``spec.simulate``; warn about each unknown tier.

    Args:
        simulate_spec: ``spec.simulate`` of a project; empty if there is none.
        declared: Documents by cluster id, with the tiers that they refer to.

    Raises:
        UsageError: The policy is invalid.
    """
    from reconciler.manifest.project.simulation_policy import policy_of as simulation_policy_of

    try:
        policy = simulation_policy_of(simulate_spec, declared)
    except QuotaValueError as wrong:  # a project that was parsed was checked
        raise UsageError(f"spec.simulate: {wrong.message}") from wrong
    for name in policy.unknown:
        notices.warning(f"unknown tier {name!r}; tiers are {', '.join(policy.names)}")
    return policy


class PlanEvidence(Struct, frozen=True, kw_only=True):
    """What recorded use says of a plan."""

    simulation: "Simulation"
    preview: "Preview"  # with budgets that are compared with recorded use


class EvidenceUnavailable(Struct, frozen=True, kw_only=True):
    """Evidence that is not available, and why."""

    note: "EvidenceNote"


def _open_published(
    target: "ClusterTarget",
    prepared: "PreparedPlan",
    evidence_request: EvidenceRequest,
    address: str,
) -> "PublishedEvidence | EvidenceUnavailable":
    cluster_id = prepared.plan.cluster_id
    if not address:
        reason = "no URI is configured (telemetry.evidenceUri) or given (--evidence)"
        if not target.is_trusted:
            reason = "the project file is not trusted, so its evidence is not used"
        return _nothing(cluster_id, reason)
    if not cluster_id:
        return _nothing(
            cluster_id,
            "the cluster id is not known; set expectedClusterId, or plan with a snapshot",
        )
    try:
        needs("usage", "evidence")
    except UsageError as missing:
        return _nothing(cluster_id, f"{missing.message}: {missing.hint}")
    from reconciler.evidence.store import published_evidence
    from reconciler.evidence.store.files import address as addresses
    from reconciler.evidence.store.files.table_reader import TableReader

    try:
        reader = TableReader(addresses.parsed(address))
    except LakeError as error:
        if evidence_request.evidence != AUTO:
            raise
        return _nothing(cluster_id, error.message)
    try:
        return published_evidence.opened(
            reader,
            cluster_id,
            round(prepared.observation.at * 1000),
            round(_max_age(target) * 1000),
        )
    except LakeError as error:
        return _nothing(cluster_id, error.message)


def _max_age(target: "ClusterTarget") -> float:
    from reconciler.manifest.project.cluster import seconds

    configured = target.settings.telemetry.get("maxEvidenceAge")
    return MAX_AGE_S if configured is None else seconds(configured)


def _nothing(cluster_id: str, reason: str) -> EvidenceUnavailable:
    from reconciler.usage.impact.result_rows import EvidenceNote

    return EvidenceUnavailable(note=EvidenceNote(cluster_id=cluster_id, stale=reason))


def _simulate(
    prepared: "PreparedPlan",
    published: "PublishedEvidence | EvidenceUnavailable",
    policy: "WhatIfPolicy",
    callback: str | None,
) -> "Simulation":
    from reconciler.usage.impact.query import impact_query
    from reconciler.usage.impact.what_if import NO_EVIDENCE, summarize, unread
    from reconciler.usage.samples import QuotaType

    before, plan = prepared.observation.live, prepared.plan
    after = apply_to(before, plan.changes)
    note = published.note
    if isinstance(published, EvidenceUnavailable) or note.stale:
        query = impact_query(plan.cluster_id, before, after, {}, frozenset(QuotaType))
        rows = tuple(replace(row, why=NO_EVIDENCE) for row in unread(query, NO_EVIDENCE))
        return summarize(rows, [note], policy, notes=query.notes)
    kinds = [kind for kind in QuotaType if published.measured(kind)]
    query = impact_query(
        plan.cluster_id,
        before,
        after,
        {kind: published.buckets_by_broker(kind) for kind in kinds},
        frozenset(kinds),
        callback=callback,
        recorded=published.recorded,
    )
    try:
        rows = _rows(published, query, policy)
    except (LakeError, QuotaValueError) as error:  # damaged, or samples that cannot be
        note = replace(note, stale=error.message)
        rows = unread(query, NO_EVIDENCE)
    return summarize(rows, [note], policy, questions=[query])


def _rows(
    published: "PublishedEvidence", query: "ImpactQuery", policy: "WhatIfPolicy"
) -> "tuple[ImpactRow, ...]":
    """Return every row; the series are read in portions."""
    from reconciler.usage.impact.replay import judged
    from reconciler.usage.impact.what_if import TOO_MANY, portions, unread

    keep_compiled_code()
    max_gap_ms = published.cadence.max_gap_ms
    parts, oversized = portions(query, at_once=AT_ONCE, max_buckets=MOST_SERIES)
    impact_rows: list[ImpactRow] = []
    for part in parts:
        # The series of a portion are freed before the next one is read.
        impact_rows += judged(
            part,
            {kind: published.series(kind, buckets) for kind, buckets in part.reads.items()},
            max_gap_ms,
            clients=policy.clients,
        )
    return (*impact_rows, *unread(oversized, TOO_MANY))
