"""Many documents, one desired state: independent of the order, conflicts name all places."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.quota.entity import entity, sort_key
from reconciler.quota.keys import COLUMNS, Key
from reconciler.quota.planner.desired_state import (
    Declaration,
    DesiredState,
    conflict_problems,
    merge,
)
from reconciler.quota.state import limits_of, set_values
from tests.quota.strategies import ENTITIES, declarations

ALICE = entity(user="alice")
RATE, SHARE = Key.PRODUCER_BYTE_RATE, Key.REQUEST_PERCENTAGE


def document(name: str, *, line: int = 1, suspended: bool = False, **limits: float) -> Declaration:
    return Declaration(
        document=name,
        entity=ALICE,
        limits=limits_of({Key(key): value for key, value in limits.items()}),
        path="a.yaml",
        line=line,
        lines=(line + 5, 0, 0, 0, 0),
        suspended=suspended,
    )


def test_a_key_has_the_selection_that_defines_its_limit():
    selections = ("clusterLimits[0] matches region=eu", "", "", "", "")
    declaration = replace(document("team/one", producer_byte_rate=1.0), selections=selections)
    assert declaration.selection_of(RATE) == "clusterLimits[0] matches region=eu"
    assert declaration.selection_of(SHARE) == ""


@given(st.data())
def test_the_desired_state_does_not_depend_on_the_order_of_documents(data):
    documents = data.draw(declarations(among=ENTITIES[:4]))
    shuffled = data.draw(st.permutations(documents))
    assert merge(documents) == merge(shuffled)


@given(declarations(among=ENTITIES), st.sampled_from([(), ("team/two",)]))
def test_a_pair_is_desired_exactly_if_one_usable_document_declares_it(documents, frozen):
    desired = merge(documents, frozen=frozen)
    asking: dict[tuple, list[Declaration]] = {}
    for declaration in documents:
        if declaration.document not in desired.frozen:
            for key, _ in set_values(declaration.limits):
                asking.setdefault((declaration.entity, key), []).append(declaration)
    alone = {pair: claims[0] for pair, claims in asking.items() if len(claims) == 1}
    values = {(s, k): v for s, limits in desired.limits.items() for k, v in set_values(limits)}
    assert values == {
        pair: declaration.limits[COLUMNS.index(pair[1])] for pair, declaration in alone.items()
    }
    assert desired.pair_count == len(values)
    assert all(desired.claim(*pair) == declaration for pair, declaration in alone.items())
    assert {(c.entity, c.key): len(c.claims) for c in desired.conflicts} == {
        pair: len(claims) for pair, claims in asking.items() if len(claims) > 1
    }
    places = [(sort_key(c.entity), COLUMNS.index(c.key)) for c in desired.conflicts]
    assert places == sorted(places)
    assert desired.documents == {declaration.document for declaration in documents} | set(frozen)
    suspended = {declaration.document for declaration in documents if declaration.suspended}
    assert desired.frozen == suspended | set(frozen)
    assert desired.halted == {
        (declaration.entity, key)
        for declaration in documents
        if declaration.document in desired.frozen
        for key, _ in set_values(declaration.limits)
    }


def test_equal_values_for_one_pair_are_a_conflict_with_both_places_and_no_limit():
    declaration = document("t/one", line=9, producer_byte_rate=1.0)
    two = document("t/two", line=3, producer_byte_rate=1.0)
    desired = merge([declaration, two])
    assert dict(set_values(desired.limits[ALICE])) == {}
    (conflict,) = desired.conflicts
    assert [claim.place(RATE) for claim in conflict.claims] == ["a.yaml:8", "a.yaml:14"]


def test_a_conflict_is_one_problem_at_each_of_its_places():
    first, second = (document(name, producer_byte_rate=1.0) for name in ("t/one", "t/two"))
    third = replace(first, document="t/three", path="")
    words = "producer_byte_rate of user=alice is declared by"
    assert list(map(str, conflict_problems(merge([first, second, third]).conflicts))) == [
        f":6:1: {words} t/three, and by t/one at a.yaml:6, t/two at a.yaml:6",
        f"a.yaml:6:1: {words} t/one, and by t/three, t/two at a.yaml:6",
        f"a.yaml:6:1: {words} t/two, and by t/three, t/one at a.yaml:6",
    ]


def test_documents_decide_what_they_declare_unless_a_frozen_one_owns_it():
    desired = merge(
        [
            document("t/one", producer_byte_rate=1.0),
            document("t/two", line=20, suspended=True, request_percentage=5.0),
        ]
    )
    assert (desired.value(ALICE, RATE), desired.value(ALICE, SHARE)) == (1.0, None)
    assert desired.decides(ALICE, RATE, "t/one")
    assert not desired.decides(ALICE, RATE, "t/two")
    assert not desired.decides(ALICE, SHARE, "t/one")


def test_a_desired_state_with_a_limit_without_a_claim_is_rejected():
    with pytest.raises(ValueError, match="every desired entity needs a claim"):
        DesiredState(limits={ALICE: limits_of({RATE: 1.0})})
    with pytest.raises(ValueError, match="every claim limits"):
        DesiredState(claims={ALICE: (document("t/one", producer_byte_rate=1.0),)})
