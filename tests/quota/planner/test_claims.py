"""Which document gets a pair that several documents declare."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.quota.entity import entity
from reconciler.quota.keys import COLUMNS, Key
from reconciler.quota.ownership import NO_RECORD, Owner, OwnershipRecords
from reconciler.quota.planner.claims import Claim, resolve_claims
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.state import limits_of

ALICE = entity(user="alice")
BOB = entity(user="bob")
PRODUCE, CONSUME = Key.PRODUCER_BYTE_RATE, Key.CONSUMER_BYTE_RATE
NOTHING = OwnershipRecords(cluster_id="c")


def claim(name, *, priority=0, created=0.0, subject=ALICE, suspended=False, **limits):
    values = {Key(key): float(value) for key, value in limits.items()}
    declared = Declaration(
        document=f"team/{name}", entity=subject, limits=limits_of(values), suspended=suspended
    )
    return Claim(declaration=declared, priority=priority, created=created)


def held_by(document, key=PRODUCE):
    record = NO_RECORD.with_pair(key, 1.0, Owner(document=document))
    return OwnershipRecords(cluster_id="c", records={ALICE: record})


def winner(*claims, owned=NOTHING):
    settled = resolve_claims(claims, owned=owned)
    declaration = settled.desired.claim(ALICE, PRODUCE)
    assert declaration is not None
    return declaration.document


def test_the_higher_grant_takes_precedence_over_everything_else():
    older = claim("a", priority=5, created=1.0, producer_byte_rate=10)
    granted = claim("b", priority=1, created=2.0, producer_byte_rate=20)
    assert winner(older, granted, owned=held_by("team/a")) == "team/b"


VALUES = st.dictionaries(
    st.sampled_from([str(k) for k in COLUMNS[:4]]), st.integers(1, 3), min_size=1
)
CLAIMS = st.lists(
    st.tuples(st.sampled_from([ALICE, BOB]), st.integers(0, 2), st.integers(0, 2), VALUES),
    max_size=8,
)


@given(drawn=CLAIMS, shuffled=st.randoms(use_true_random=False))
def test_every_pair_has_exactly_one_winner_for_any_order(drawn, shuffled):
    claims = [
        claim(f"d{n}", subject=subject, priority=priority, created=float(created), **values)
        for n, (subject, priority, created, values) in enumerate(drawn)
    ]
    settled = resolve_claims(claims, owned=NOTHING)
    again = claims[:]
    shuffled.shuffle(again)
    assert resolve_claims(again, owned=NOTHING) == settled
    for contender in claims:
        for key, value in zip(COLUMNS, contender.declaration.limits, strict=True):
            if value is None:
                continue
            pair = contender.declaration.entity, key
            has = settled.desired.claim(*pair)
            assert has is not None
            is_winner = has.document == contender.declaration.document
            lost = settled.losses.get(contender.declaration.document, {})
            assert is_winner != (pair in lost)
            assert is_winner or lost[pair] == has.document
