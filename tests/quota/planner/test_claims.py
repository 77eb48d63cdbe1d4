"""Which document gets a pair that several documents declare."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.quota.entity import entity
from reconciler.quota.keys import COLUMNS, Key
from reconciler.quota.ownership import NO_RECORD, Owner, OwnershipRecords
from reconciler.quota.planner.desired_state import Claim, Declaration, resolve_claims
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


def test_the_current_owner_takes_precedence_over_an_older_document():
    older = claim("a", created=1.0, producer_byte_rate=10)
    holder = claim("b", created=2.0, producer_byte_rate=20)
    assert winner(older, holder, owned=held_by("team/b")) == "team/b"


def test_the_older_document_wins_if_the_pair_has_no_owner():
    assert (
        winner(
            claim("b", created=1.0, producer_byte_rate=10),
            claim("a", created=2.0, producer_byte_rate=20),
        )
        == "team/b"
    )


def test_the_name_decides_between_documents_of_the_same_age():
    assert winner(claim("b", producer_byte_rate=1), claim("a", producer_byte_rate=2)) == "team/a"


def test_the_losing_document_is_reported_with_its_pair_and_the_winner_and_claims_nothing_of_it():
    first, second = claim("a", producer_byte_rate=1), claim("b", producer_byte_rate=2)
    settled = resolve_claims([first, second], owned=NOTHING)
    assert settled.losses == {"team/b": {(ALICE, PRODUCE): "team/a"}}
    assert settled.desired.claims == {ALICE: (first.declaration,)}
    assert settled.desired.conflicts == ()
    assert settled.desired.documents == {"team/a", "team/b"}
    assert settled.desired.frozen == frozenset()
    assert settled.desired.halted == frozenset()


def test_a_losing_document_keeps_the_keys_that_it_alone_declares():
    first = claim("a", producer_byte_rate=1)
    second = claim("b", producer_byte_rate=2, consumer_byte_rate=3)
    desired = resolve_claims([first, second], owned=NOTHING).desired
    assert desired.limits[ALICE] == limits_of({PRODUCE: 1.0, CONSUME: 3.0})
    declaration = desired.claim(ALICE, CONSUME)
    assert declaration is not None
    assert declaration.document == "team/b"


def test_a_document_with_an_end_wins_over_another_one_of_its_namespace_only():
    def ending(namespace, until=9.0):
        raised = claim("raise", producer_byte_rate=20)
        document = f"{namespace}/raise"
        return replace(
            raised, declaration=replace(raised.declaration, document=document, until=until)
        )

    lasting = claim("a", producer_byte_rate=10)
    settled = resolve_claims([lasting, ending("team"), ending("a-first")], owned=NOTHING)
    pair = (ALICE, PRODUCE)
    assert settled.desired.temporary[pair].document == "team/raise"
    assert settled.desired.claims == {ALICE: (lasting.declaration,)}
    assert settled.losses == {"a-first/raise": {pair: "team/raise"}}
    alone = resolve_claims([lasting, ending("a-first")], owned=NOTHING)
    assert (alone.desired.temporary, alone.losses) == ({}, {"a-first/raise": {pair: "team/a"}})
    over = resolve_claims([lasting, ending("team")], owned=NOTHING, now=9.0)
    assert (over.desired.temporary, over.losses) == ({}, {})
    assert over.desired.documents == {"team/a", "team/raise"}


def test_frozen_halted_and_other_documents_are_listed_and_claim_nothing():
    settled = resolve_claims(
        [claim("a", producer_byte_rate=1)],
        owned=NOTHING,
        frozen=["team/broken"],
        halted=[(BOB, PRODUCE)],
        other_documents=["team/leaving"],
    )
    assert settled.desired.documents == {"team/a", "team/broken", "team/leaving"}
    assert settled.desired.frozen == {"team/broken"}
    assert settled.desired.halted == {(BOB, PRODUCE)}


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
