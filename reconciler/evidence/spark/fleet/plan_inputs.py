"""Desired states, inventories and rules as data frames: the sides of a fleet plan that are no looks at a cluster.

They come from files that are read elsewhere; on a cluster of machines they are tables like any other.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from reconciler.evidence.spark.fleet.pattern_decisions import rules_code
from reconciler.evidence.spark.limits.entities import PATTERN, pattern_row
from reconciler.evidence.spark.tables.schemas import struct
from reconciler.quota.entity_forms import canonical_text
from reconciler.quota.keys import COLUMNS
from reconciler.quota.ownership import Owner, OwnershipRecords, Pair
from reconciler.quota.planner.desired_state import DesiredState
from reconciler.quota.policy import Rules
from reconciler.usage.tables import DESIRED_DOCUMENT, DESIRED_ENTRY, OWNED_ENTRY

Row = tuple[object, ...]

ORDERS: Final = f"cluster_id string, day date, rules string, now_s double, scope array<{PATTERN}>, ignored_rules array<{PATTERN}>"
"""What a cluster's plan may do: one row each. Ignore rules that are over are not in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFrames:
    """What a fleet plan compares. Frames may speak of further clusters only if ``orders`` does, too.

    Attributes:
        live: ``quota_entry`` of one look per cluster.
        desired: ``desired_entry``.
        documents: ``desired_document``.
        owned: ``owned_entry``.
        orders: :data:`ORDERS`.
    """

    live: DataFrame
    desired: DataFrame
    documents: DataFrame
    owned: DataFrame
    orders: DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlanInput:
    """What one cluster's plan is made from, besides the cluster itself.

    Attributes:
        desired: All its documents.
        owned: Its records.
        rules: What the plan may do.
        day: Of the look that it is compared with.
    """

    desired: DesiredState
    owned: OwnershipRecords
    rules: Rules
    day: dt.date


def sides(
    spark: SparkSession, live: DataFrame, fleet: Mapping[str, ClusterPlanInput], *, now: float
) -> PlanFrames:
    """The sides of a fleet whose files were read here.

    Args:
        spark: The session.
        live: ``quota_entry`` of one look per cluster; clusters that are not in ``fleet`` are left out.
        fleet: By cluster id.
        now: Seconds since the epoch, for overrides, ignore rules and writes of unknown fate.
    """
    orders = [
        order_row(name, plan_input.rules, plan_input.day, now=now)
        for name, plan_input in fleet.items()
    ]
    cluster_ids = [name for name, plan_input in fleet.items()]
    return PlanFrames(
        live=live.where(live["cluster_id"].isin(cluster_ids)),
        desired=spark.createDataFrame(
            [
                row
                for name, plan_input in fleet.items()
                for row in desired_rows(name, plan_input.desired, plan_input.day)
            ],
            struct(DESIRED_ENTRY),
        ),
        documents=spark.createDataFrame(
            [
                row
                for name, plan_input in fleet.items()
                for row in document_rows(name, plan_input.desired, plan_input.day)
            ],
            struct(DESIRED_DOCUMENT),
        ),
        owned=spark.createDataFrame(
            [
                row
                for name, plan_input in fleet.items()
                for row in owned_rows(name, plan_input.owned, plan_input.day)
            ],
            struct(OWNED_ENTRY),
        ),
        orders=spark.createDataFrame(orders, ORDERS),
    )


def desired_rows(cluster_id: str, desired: DesiredState, day: dt.date) -> Iterator[Row]:
    """``desired_entry``: one row per claim, so that conflicts are rows; and one per halted pair, whose value is not used."""
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
    """``desired_document``."""
    return ((cluster_id, name, name in desired.frozen, day) for name in desired.documents)


def owned_rows(cluster_id: str, owned: OwnershipRecords, day: dt.date) -> Iterator[Row]:
    """``owned_entry``: every pair that anything is known of."""
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
            override.declared if override else None,
            bool(override and override.ends_with_document),
            day,
        )


def order_row(cluster_id: str, rules: Rules, day: dt.date, *, now: float) -> Row:
    """A row of :data:`ORDERS`."""
    active = (rule for rule in rules.ignore if rule.until is None or now < rule.until)
    return (
        cluster_id,
        day,
        rules_code(rules),
        now,
        [pattern_row(pattern) for pattern in rules.scope],
        [pattern_row(rule.entities, frozenset(map(str, rule.keys))) for rule in active],
    )


def _recorded(owned: OwnershipRecords) -> Iterable[Pair]:
    return (
        (subject, key) for subject, record in owned.records.items() for key, _ in record.pairs()
    )


def _owner(owner: Owner | None) -> tuple[str, str]:
    return (owner.document, str(owner.deletion_policy or "")) if owner is not None else ("", "")
