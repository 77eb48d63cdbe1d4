"""Generated inputs of a comparison, one cluster each: documents, records, intents, overrides, observations, rules."""

import random
from collections.abc import Sequence

from reconciler.quota.entity import Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import (
    Intent,
    IntentStarted,
    Orphaned,
    OverrideSet,
    Owner,
    OwnershipRecords,
    RecordChange,
    Recorded,
)
from reconciler.quota.patterns import EVERYTHING, EntityForm, EntityPattern, NamePattern
from reconciler.quota.planner.desired_state import Declaration, merge
from reconciler.quota.policy import DriftMode, IgnoreRule, Policy, Rules
from reconciler.quota.state import Limits, QuotaState, limits_of
from tests.quota.strategies import DOCUMENTS, FEW, NOW, POLICIES, World, keys_of

SUBJECTS = (
    *FEW,
    entity(user="alice", client_id="<default>"),
    entity(user="zoë 日本", client_id=None),
)
WANTED = (1.0, 2.0, 3.0, float(2**63))
LIVE = (1.0, 2.0, 2.000_000_5, 3.0, 1.999_999_5, float("inf"), float("nan"), 0.0, float(2**63))
OLD = (1.0, 2.0, 2.000_000_5, 3.0, 0.5)

PATTERNS = (
    EntityPattern(user=NamePattern(exact="alice")),
    EntityPattern(user=NamePattern(prefix="<def")),
    EntityPattern(
        forms=frozenset({EntityForm.DEFAULT_USER, EntityForm.DEFAULT_CLIENT_ID, EntityForm.IP})
    ),
    EntityPattern(
        forms=frozenset({EntityForm.USER_CLIENT_ID, EntityForm.USER}),
        user=NamePattern(prefix="a"),
        client_id=NamePattern(exact="app"),
    ),
    EntityPattern(ip=NamePattern(prefix="10.")),
    EVERYTHING,
)
RULES_IGNORED = (
    (),
    (),
    (IgnoreRule(entities=PATTERNS[0], reason="known"),),
    (IgnoreRule(entities=EVERYTHING, reason="one key", keys=frozenset({Key.PRODUCER_BYTE_RATE})),),
    (IgnoreRule(entities=EVERYTHING, reason="over", until=NOW - 1),),
    (IgnoreRule(entities=PATTERNS[1], reason="still", until=NOW + 1),),
)


def world(draw: random.Random, cluster_id: str) -> World:
    """All inputs of one comparison."""
    frozen = draw.choice(((), (), ("team/three",), ("team/one", "gone/unread")))
    return World(
        desired=merge(_documents(draw), frozen=frozen),
        owned=OwnershipRecords(cluster_id=cluster_id).with_changes(_records(draw)),
        live=QuotaState(limits={subject: _limits(draw, subject, LIVE) for subject in _some(draw)}),
        rules=Rules(
            policy=draw.choice(list(Policy)),
            sync_confirmed=draw.random() < 0.7,
            drift=draw.choice(list(DriftMode)),
            exclusive=draw.random() < 0.5,
            scope=tuple(draw.sample(PATTERNS, draw.choice((0, 1, 2)))),
            ignore=draw.choice(RULES_IGNORED),
            complete=draw.random() < 0.8,
            force=draw.random() < 0.3,
        ),
    )


def _some(draw: random.Random) -> Sequence[Entity]:
    return draw.sample(SUBJECTS, draw.randint(0, len(SUBJECTS)))


def _limits(draw: random.Random, subject: Entity, values: Sequence[float]) -> Limits:
    keys = keys_of(subject)
    return limits_of(
        {key: draw.choice(values) for key in draw.sample(keys, draw.randint(1, len(keys)))}
    )


def _documents(draw: random.Random) -> list[Declaration]:
    return [
        Declaration(
            document=draw.choice(DOCUMENTS),
            entity=subject,
            limits=_limits(draw, subject, WANTED),
            path=draw.choice(("a.yaml", "b/ü.yaml")),
            line=10 * number + 1,
            lines=(10 * number + 4, 10 * number + 5, 0, 0, 0),
            deletion_policy=draw.choice(POLICIES),
            suspended=draw.random() < 0.15,
        )
        for number, subject in enumerate([*_some(draw), *draw.sample(SUBJECTS, 1)])
    ]


def _records(draw: random.Random) -> list[RecordChange]:
    pairs = [(subject, key) for subject in SUBJECTS for key in keys_of(subject)]
    record_pairs = draw.sample(pairs, draw.randint(0, len(pairs)))
    changes: list[RecordChange] = [
        Recorded(entity=subject, key=key, value=draw.choice(OLD), owner=_owner(draw))
        for subject, key in record_pairs
    ]
    changes += [
        Orphaned(entity=subject, key=key) for subject, key in record_pairs if draw.random() < 0.2
    ]
    changes += [
        IntentStarted(
            entity=subject,
            key=key,
            intent=Intent(
                value=draw.choice((None, *OLD)),
                owner=_owner(draw),
                at=draw.choice((1.0, NOW - 65.0, NOW - 64.5)),
            ),
        )
        for subject, key in draw.sample(pairs, draw.randint(0, 4))
    ]
    changes += [
        OverrideSet(
            override=Override(
                entity=subject,
                key=key,
                value=draw.choice((None, *OLD)),
                until=draw.choice((NOW, NOW - 1, NOW + 1)),
                author="night shift",
                reason="because",
                before=draw.choice((None, *OLD)),
                declared=draw.choice((None, *WANTED)),
                ends_with_document=draw.random() < 0.4,
                applied=draw.choice((None, *OLD)),
            )
        )
        for subject, key in draw.sample(pairs, draw.randint(0, 5))
    ]
    return changes


def _owner(draw: random.Random) -> Owner:
    return Owner(
        document=draw.choice((*DOCUMENTS, "gone/long ago", "gone/unread", "")),
        deletion_policy=draw.choice(POLICIES),
        since=1.0,
    )
