"""The message about drift: values without secrets, their digest, and the JSON for receivers."""

import hashlib
import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from reconciler.base.redaction import QuietRepr
from reconciler.errors import QuotaValueError
from reconciler.quota.drift_tracker import DriftObservation
from reconciler.quota.entity import Entity, sort_key
from reconciler.quota.entity_forms import entity_json, entity_text
from reconciler.quota.keys import COLUMN_OF, Key
from reconciler.quota.results.report import ExpiredOverride
from reconciler.render.json_values import Json, value_json
from reconciler.render.units import instant

FORMAT: Final = 1
"""Increased when an old reader could misread a new message."""

MOST_PAIRS: Final = 100
"""Maximum number of pairs in a message; the rest is counted. A message stays far below receivers' limits."""


class DriftEvent(StrEnum):
    """What happened since the last message."""

    BEGAN = "began"
    CHANGED = "changed"
    REMINDED = "reminded"
    ENDED = "ended"


class DriftedPair(Struct, frozen=True, kw_only=True):
    """One pair that was changed outside kquota."""

    entity: Entity
    key: Key
    expected: float | None
    live: float | None  # the observed value; None = it was removed
    since: float  # when it was first observed, in seconds since the epoch
    # Whether corrections stopped because another writer kept reverting them.
    corrections_stopped: bool = False
    # Times of recent corrections, with the foreign values that they replaced.
    corrections: tuple[tuple[float, float | None], ...] = ()
    # Whether the live value is that of an override, which ended at `since`.
    is_expired_override: bool = False


class ClusterDrift(QuietRepr, Struct, frozen=True, kw_only=True):
    """The present drift of one cluster; may be empty."""

    cluster: str
    cluster_id: str
    pairs: tuple[DriftedPair, ...] = ()  # by entity and column

    @property
    def digest(self) -> str:
        """SHA-256 of the drift, without times: equal digests mean that there is nothing new to report."""
        facts = [
            [
                entity_json(drifted.entity),
                drifted.key.value,
                value_json(drifted.expected),
                value_json(drifted.live),
                drifted.corrections_stopped,
            ]
            for drifted in self.pairs
        ]
        text = json.dumps([self.cluster, self.cluster_id, facts], separators=(",", ":"))
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


class Message(Struct, frozen=True, kw_only=True):
    """One message to send."""

    event: DriftEvent
    drift: ClusterDrift  # the present drift; empty if it ended
    at: float  # when it was observed, in seconds since the epoch
    since: float  # when the reported drift was first observed
    digest: str  # of the present drift, or of the ended one
    resolved: int = 0  # number of pairs that are no longer drifted, if it ended

    def __post_init__(self) -> None:
        if (self.event is DriftEvent.ENDED) == bool(self.drift.pairs):
            raise QuotaValueError("a message that drift ended lists no pairs, and any other does")

    @property
    def identity(self) -> str:
        """Equal for every attempt to deliver this message, and different for every other message."""
        text = f"{self.digest} {self.event} {self.at:.3f}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def drift_of(
    cluster: str,
    cluster_id: str,
    observations: Sequence[DriftObservation],
    expired_overrides: Sequence[ExpiredOverride] = (),
) -> ClusterDrift:
    """Return the confirmed observations and the expired overrides of a cluster, as the content of a message."""
    pairs = [
        DriftedPair(
            entity=expired.override.entity,
            key=expired.override.key,
            expected=expired.expected,
            live=expired.live,
            since=expired.override.until,
            is_expired_override=True,
        )
        for expired in expired_overrides
    ]
    pairs += [
        DriftedPair(
            entity=observation.entity,
            key=observation.key,
            expected=observation.expected,
            live=observation.live,
            since=observation.since,
            corrections_stopped=observation.corrections_stopped,
            corrections=tuple(zip(observation.corrected_at, observation.overwritten, strict=True)),
        )
        for observation in observations
        if observation.confirmed
    ]
    pairs.sort(key=lambda drifted: (sort_key(drifted.entity), COLUMN_OF[drifted.key]))
    return ClusterDrift(cluster=cluster, cluster_id=cluster_id, pairs=tuple(pairs))


def document(message: Message) -> dict[str, Json]:
    """Return the message as JSON for receivers."""
    pairs = message.drift.pairs
    return {
        "kind": "kquota-drift-message",
        "format": FORMAT,
        "event": message.event.value,
        "id": message.identity,
        "cluster": message.drift.cluster,
        "clusterId": message.drift.cluster_id,
        "at": instant(message.at),
        "since": instant(message.since),
        "digest": message.digest,
        "driftedPairs": len(pairs),
        "resolvedPairs": message.resolved,
        "omittedPairs": max(len(pairs) - MOST_PAIRS, 0),
        "pairs": [_pair(drifted) for drifted in pairs[:MOST_PAIRS]],
    }


def _pair(drifted: DriftedPair) -> dict[str, Json]:
    return {
        "entity": entity_json(drifted.entity),
        "entityText": entity_text(drifted.entity),
        "key": drifted.key.value,
        "expected": value_json(drifted.expected),
        "live": value_json(drifted.live),
        "since": instant(drifted.since),
        "fought": drifted.corrections_stopped,
        "expiredOverride": drifted.is_expired_override,
        "corrections": [
            {"at": instant(at), "overwrote": value_json(value)} for at, value in drifted.corrections
        ],
    }
