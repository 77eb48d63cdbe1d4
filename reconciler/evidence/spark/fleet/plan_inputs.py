"""Desired states, inventories and rules as data frames: the inputs of a fleet plan besides live quotas."""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from reconciler.evidence.spark.tables.schemas import struct
from reconciler.quota.entity import Entity
from reconciler.quota.entity_forms import canonical_text, read_canonical
from reconciler.quota.keys import COLUMNS, Key, key_columns
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import Intent, Owner, OwnershipRecord, OwnershipRecords, Pair
from reconciler.quota.planner.desired_state import Declaration, DesiredState, merge
from reconciler.quota.planner.guards import Guards
from reconciler.quota.policy import DeletionPolicy, Rules
from reconciler.quota.state import QuotaState, limits_of
from reconciler.usage.tables import DESIRED_DOCUMENT, DESIRED_ENTRY, OWNED_ENTRY

Row = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFrames:
    """The inputs of a fleet plan."""

    live: DataFrame  # `quota_entry` of one snapshot per cluster
    desired: DataFrame  # `desired_entry`
    documents: DataFrame  # `desired_document`
    owned: DataFrame  # `owned_entry`


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlanInput:
    """The inputs of one cluster's plan, besides its live quotas."""

    desired: DesiredState
    owned: OwnershipRecords
    rules: Rules  # policy, drift mode, scope and the rest
    day: dt.date
    # Guards on counts are checked; the others are not.
    guards: Guards = field(default_factory=Guards)


def sides(
    spark: SparkSession, live: DataFrame, fleet: Mapping[str, ClusterPlanInput]
) -> PlanFrames:
    """Build the frames of a fleet whose files were read in this process.

    Args:
        live: ``quota_entry`` of one snapshot per cluster; clusters that are not in ``fleet`` are dropped.
        fleet: Inputs by cluster id.
    """
    desired: list[Row] = []
    documents: list[Row] = []
    owned: list[Row] = []
    for cluster_id, side in fleet.items():
        desired += desired_rows(cluster_id, side.desired, side.day)
        documents += document_rows(cluster_id, side.desired, side.day)
        owned += owned_rows(cluster_id, side.owned, side.day)
    return PlanFrames(
        live=live.where(live["cluster_id"].isin(list(fleet))),
        desired=spark.createDataFrame(desired, struct(DESIRED_ENTRY)),
        documents=spark.createDataFrame(documents, struct(DESIRED_DOCUMENT)),
        owned=spark.createDataFrame(owned, struct(OWNED_ENTRY)),
    )


def desired_rows(cluster_id: str, desired: DesiredState, day: dt.date) -> Iterator[Row]:
    """Return rows of ``desired_entry``: one per claim, so that conflicts are rows; and one per halted pair, with an unused value."""
    for subject, claims in desired.claims.items():
        text = canonical_text(subject)
        for claim in claims:
            for key, value in zip(COLUMNS, claim.limits, strict=True):
                if value is not None:
                    yield (
                        cluster_id,
                        text,
                        str(key),
                        value,
                        claim.document,
                        claim.path,
                        claim.line_of(key),
                        str(claim.deletion_policy or ""),
                        False,
                        day,
                    )
    for subject, key in desired.halted:
        yield (cluster_id, canonical_text(subject), str(key), 0.0, "", "", 0, "", True, day)


def document_rows(cluster_id: str, desired: DesiredState, day: dt.date) -> Iterator[Row]:
    """Return rows of ``desired_document``."""
    return ((cluster_id, name, name in desired.frozen, day) for name in desired.documents)


def owned_rows(cluster_id: str, owned: OwnershipRecords, day: dt.date) -> Iterator[Row]:
    """Return rows of ``owned_entry``: every pair with a record, intent, orphan mark or override."""
    for pair in dict.fromkeys(
        (*_recorded(owned), *owned.intents, *owned.orphaned, *owned.overrides)
    ):
        subject, key = pair
        record, intent, override = (
            owned.records.get(subject),
            owned.intents.get(pair),
            owned.overrides.get(pair),
        )
        column = COLUMNS.index(key)
        applied = record.applied[column] if record is not None else None
        owner = record.owners[column] if record is not None else None
        yield (
            cluster_id,
            canonical_text(subject),
            str(key),
            applied,
            *_owner(owner),
            pair in owned.orphaned,
            intent is not None,
            intent.value if intent else None,
            *_owner(intent.owner if intent else None),
            float(intent.at) if intent else None,
            override is not None,
            override.value if override else None,
            float(override.until) if override else None,
            override.before if override else None,
            override.applied if override else None,
            override.declared if override else None,
            bool(override and override.ends_with_document),
            day,
        )


def cluster_sides(
    cluster_id: str, pairs: Iterable[Mapping[str, Any]]
) -> tuple[DesiredState, OwnershipRecords, QuotaState]:
    """Convert pairs of a cluster back to desired state, ownership records and live quotas.

    Args:
        cluster_id: The cluster of the pairs.
        pairs: Rows of ``fleet.plan.laid_out``.
    """
    declarations: list[Declaration] = []
    live: dict[Entity, dict[Key, float]] = {}
    records: dict[Entity, dict[Key, tuple[float, Owner]]] = {}
    intents: dict[Pair, Intent] = {}
    overrides: dict[Pair, Override] = {}
    halted: set[Pair] = set()
    orphaned: set[Pair] = set()
    documents: set[str] = set()
    frozen: set[str] = set()
    for row in pairs:
        subject, key = pair = read_canonical(row["entity_json"]), Key(row["quota_key"])
        declarations += (
            Declaration(
                document=claim["document"],
                entity=subject,
                limits=limits_of({key: claim["value"]}),
                path=claim["path"],
                line=claim["line"],
                deletion_policy=_policy(claim["deletion_policy"]),
            )
            for claim in row["claimed"] or ()
        )
        if row["halted"]:
            halted.add(pair)
        if row["live"] is not None:
            live.setdefault(subject, {})[key] = row["live"]
        if row["applied"] is not None:
            owner = Owner(document=row["document"], deletion_policy=_policy(row["deletion_policy"]))
            records.setdefault(subject, {})[key] = row["applied"], owner
        if row["orphaned"]:
            orphaned.add(pair)
        if row["intended"]:
            policy = _policy(row["intent_deletion_policy"])
            owner = Owner(document=row["intent_document"], deletion_policy=policy)
            intents[pair] = Intent(value=row["intent_value"], owner=owner, at=row["intent_at_s"])
        if row["overridden"]:
            overrides[pair] = Override(
                entity=subject,
                key=key,
                value=row["override_value"],
                until=row["override_until_s"],
                author="",
                reason="",
                before=row["override_before"],
                applied=row["override_applied"],
                declared=row["override_declared"],
                ends_with_document=row["override_ends_with_document"],
            )
        for name in ("document", "intent_document"):
            documents |= {row[name]} if row[f"{name}_there"] else set()
            frozen |= {row[name]} if row[f"{name}_frozen"] else set()
    desired = merge(declarations, frozen=frozen)
    return (
        replace(desired, documents=desired.documents | documents, halted=frozenset(halted)),
        OwnershipRecords(
            cluster_id=cluster_id,
            records={subject: _record(values) for subject, values in records.items()},
            intents=intents,
            orphaned=frozenset(orphaned),
            overrides=overrides,
        ),
        QuotaState(limits={subject: limits_of(values) for subject, values in live.items()}),
    )


def _record(values: Mapping[Key, tuple[float, Owner]]) -> OwnershipRecord:
    return OwnershipRecord(
        limits_of({key: value for key, (value, _) in values.items()}),
        key_columns([values[key][1] if key in values else None for key in COLUMNS]),
    )


def _policy(text: str) -> DeletionPolicy | None:
    return DeletionPolicy(text) if text else None


def _recorded(owned: OwnershipRecords) -> Iterable[Pair]:
    return (
        (subject, key) for subject, record in owned.records.items() for key, _ in record.pairs()
    )


def _owner(owner: Owner | None) -> tuple[str, str]:
    return (owner.document, str(owner.deletion_policy or "")) if owner is not None else ("", "")
