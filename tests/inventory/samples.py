"""Ownership records for the tests of inventories: unusual names, every section filled."""

from hypothesis import strategies as st

from reconciler.quota.entity import DEFAULT, Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import (
    DriftObserved,
    Intent,
    IntentEnded,
    IntentStarted,
    Orphaned,
    OverrideEnded,
    OverrideSet,
    OverrideWritten,
    Owner,
    RecordDropped,
    Recorded,
)
from reconciler.quota.policy import DeletionPolicy

ALICE = entity(user="alice")
ODD = entity(user='a\n"|`\u202e<default>', client_id=DEFAULT)
LITERAL = entity(user="<default>")
HOME = entity(ip="::1")
OWNER = Owner(
    document="payments/alice", deletion_policy=DeletionPolicy.DELETE, since=1_700_000_000.25
)
OTHER = Owner(document="shop/x", since=5.0)

CHANGES = (
    Recorded(entity=ALICE, key=Key.PRODUCER_BYTE_RATE, value=1048576.0, owner=OWNER),
    Recorded(entity=ALICE, key=Key.REQUEST_PERCENTAGE, value=50.5, owner=OTHER),
    Recorded(entity=ODD, key=Key.CONSUMER_BYTE_RATE, value=2.0**63, owner=OTHER),
    Recorded(entity=HOME, key=Key.CONNECTION_CREATION_RATE, value=3.0, owner=OTHER),
    IntentStarted(
        entity=LITERAL, key=Key.PRODUCER_BYTE_RATE, intent=Intent(value=None, owner=OWNER)
    ),
    IntentStarted(
        entity=ODD, key=Key.PRODUCER_BYTE_RATE, intent=Intent(value=0.1, owner=OWNER, at=9.0)
    ),
    DriftObserved(entity=ALICE, key=Key.PRODUCER_BYTE_RATE, at=12.5),
    Orphaned(entity=HOME, key=Key.CONNECTION_CREATION_RATE),
    OverrideSet(
        override=Override(
            entity=ALICE,
            key=Key.PRODUCER_BYTE_RATE,
            value=None,
            until=99.0,
            author="me\n",
            reason="night|shift",
            before=float("nan"),
            declared=7.0,
            ends_with_document=True,
        )
    ),
)

NAMES = st.one_of(
    st.just(DEFAULT), st.sampled_from(["", "<default>", "a,b", "\ud800"]), st.text(max_size=4)
)
ENTITIES: st.SearchStrategy[Entity] = st.one_of(
    st.builds(lambda u: entity(user=u), NAMES),
    st.builds(lambda u, c: entity(user=u, client_id=c), NAMES, NAMES),
    st.builds(lambda i: entity(ip=i), NAMES),
)
KEYS = st.sampled_from(Key)
VALUES = st.floats(min_value=1e-9, max_value=2.0**63)
OWNERS = st.builds(
    Owner,
    document=st.text(max_size=5),
    deletion_policy=st.sampled_from([None, *DeletionPolicy]),
    since=st.floats(min_value=0, max_value=4e9),
)
OVERRIDES = st.builds(
    Override,
    entity=ENTITIES,
    key=KEYS,
    value=st.none() | VALUES,
    until=st.floats(min_value=0, max_value=4e9),
    author=st.text(max_size=3),
    reason=st.text(max_size=3),
    before=st.none() | st.floats(allow_nan=False),
    declared=st.none() | VALUES,
    applied=st.none() | VALUES,
    ends_with_document=st.booleans(),
)
RECORD_CHANGES = st.one_of(
    st.builds(Recorded, entity=ENTITIES, key=KEYS, value=VALUES, owner=OWNERS),
    st.builds(RecordDropped, entity=ENTITIES, key=KEYS),
    st.builds(
        IntentStarted,
        entity=ENTITIES,
        key=KEYS,
        intent=st.builds(Intent, value=st.none() | VALUES, owner=OWNERS, at=VALUES),
    ),
    st.builds(IntentEnded, entity=ENTITIES, key=KEYS),
    st.builds(DriftObserved, entity=ENTITIES, key=KEYS, at=st.none() | VALUES),
    st.builds(Orphaned, entity=ENTITIES, key=KEYS),
    st.builds(OverrideSet, override=OVERRIDES),
    st.builds(OverrideWritten, entity=ENTITIES, key=KEYS, value=st.none() | VALUES),
    st.builds(OverrideEnded, entity=ENTITIES, key=KEYS),
)
