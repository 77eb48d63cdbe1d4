"""Records as text: everything reads back, equal records are equal bytes, damage is never read as empty."""

import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import InventoryError
from reconciler.inventory.format import decode, encode
from reconciler.quota.keys import Key
from reconciler.quota.ownership import OwnershipRecord, OwnershipRecords, ProjectNamed, Recorded
from tests.inventory.samples import ALICE, CHANGES, OWNER, RECORD_CHANGES


def document() -> dict[str, OwnershipRecords]:
    changes = [ProjectNamed(project="payments/prod"), *CHANGES]
    return {"lkc": OwnershipRecords(cluster_id="lkc").with_changes(changes)}


@given(st.lists(RECORD_CHANGES), st.lists(RECORD_CHANGES, max_size=2), st.text(), st.booleans())
def test_the_document_is_read_as_it_was_written(changes, more_changes, project, is_known):
    clusters = {
        name: OwnershipRecords(cluster_id=name, is_known=is_known, project=project).with_changes(
            cluster_changes
        )
        for name, cluster_changes in (("one", changes), ("two/\n", more_changes))
    }
    assert decode(encode(clusters), location="x") == clusters


@given(st.lists(RECORD_CHANGES, unique_by=lambda c: repr(c)[:60]), st.randoms())
def test_equal_records_are_equal_bytes_whatever_their_history(changes, random):
    owned = OwnershipRecords(cluster_id="one").with_changes(changes)
    mixed = {
        name: dict(sorted(getattr(owned, name).items(), key=lambda _: random.random()))
        for name in ("records", "intents", "drift_since", "overrides")
    }
    shuffled = msgspec.structs.replace(owned, **mixed)
    assert encode({"one": owned}) == encode({"one": shuffled})


def test_the_document_equals_the_golden_file():
    assert encode(document()).decode().splitlines() == [
        '{"kind":"kquota-inventory","format":1,"clusters":{',
        '"lkc":{',
        '"project":"payments/prod",',
        '"known":true,',
        '"ended":0.0,',
        '"owners":[',
        '["shop/x",null,5.0],',
        '["payments/alice","Delete",1700000000.25]],',
        '"records":[',
        '["a\\n\\"|`\\u202e<default>",null,false,[null,9.223372036854776e+18,null,null,null],0],',
        '["alice",false,false,[1048576.0,null,50.5,null,null],[1,null,0,null,null]],',
        '[false,false,"::1",[null,null,null,null,3.0],0]],',
        '"intents":[',
        '["a\\n\\"|`\\u202e<default>",null,false,"producer_byte_rate",0.1,1,9.0],',
        '["<default>",false,false,"producer_byte_rate",null,1,0.0]],',
        '"drift":[',
        '["alice",false,false,"producer_byte_rate",12.5]],',
        '"orphaned":[',
        '[false,false,"::1","connection_creation_rate"]],',
        '"overrides":[',
        '["alice",false,false,"producer_byte_rate",null,99.0,"me\\n","night|shift","nan",null,7.0,true,""]]}',
        "}}",
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"kind":"kquota-inventory"', '"kind":"other"'),
        ('"format":1', '"format":2'),
        ('"clusters"', '"klusters"'),
        ('"records"', '"recordz"'),
        ('"orphaned":[', '"orphaned":["x",'),
        ('["alice",false,false,[', '["alice",true,false,['),
        ('["alice",false,false,[', '["alice",false,"::1",['),
        ("[1048576.0,null,50.5,null,null]", "[1048576.0,null,50.5,null]"),
        ("[1048576.0,null,50.5,null,null]", '["1",null,50.5,null,null]'),
        ("[1048576.0,null,50.5,null,null]", "[null,null,null,null,null]"),
        ("[1048576.0,null,50.5,null,null]", "[1e999,null,50.5,null,null]"),
        ('"ended":0.0', '"ended":1e999'),
        ("[1048576.0,null,50.5,null,null]", "[1048576.0,null,50.5,null,null,null]"),
        ("[1048576.0,null,50.5,null,null],[1,null,0,null,null]", "[],[]"),
        ("[1048576.0,null,50.5,null,null],[1,null,0,null,null]", "[],0"),
        ("[1048576.0,null,50.5,null,null],[1,null,0,null,null]", "[null,null,null],0"),
        ("[1048576.0,null,50.5,null,null],[1,null,0,null,null]", '[1048576.0,"x"],0'),
        ("[1048576.0,null,50.5,null,null],[1,null,0,null,null]", "[1048576.0,null,50.5],[1,null]"),
        (
            "[1048576.0,null,50.5,null,null],[1,null,0,null,null]",
            "[1048576.0,null,50.5,null,null,7.0],[1,null,0,null,null,1]",
        ),
        ("[1,null,0,null,null]", "[1,null,0,null,null,null]"),
        ("[1,null,0,null,null]", "[1,null,0]"),
        ("[1,null,0,null,null]", "[0,null,null,null,null]"),
        ("[1,null,0,null,null]", "[0,null,7,null,null]"),
        ("[1,null,0,null,null]", "true"),
        ("[1,null,0,null,null]", "-1"),
        ('"Delete"', '"Vanish"'),
        ('"producer_byte_rate",12.5', '"producer_rate",12.5'),
        ('"producer_byte_rate",12.5', '"producer_byte_rate"'),
        ('"producer_byte_rate",12.5', '"producer_byte_rate","x"'),
        ('"night|shift"', "3"),
        ('null,99.0,"me', '-1.0,99.0,"me'),
        ('null,99.0,"me', '"nan",99.0,"me'),
        ('null,99.0,"me', 'null,1e999,"me'),
        ('null,99.0,"me', 'null,1e15,"me'),
        ('"payments/prod"', "null"),
        ('"known":true', '"known":1'),
        (
            '"alice",false,false,[',
            '"<default>",false,false,[1.0,null,null,null,null],0],\n["<default>",false,false,[',
        ),
    ],
)
def test_every_other_content_is_reported_as_damage(old, new):
    text = encode(document()).decode()
    assert old in text
    with pytest.raises(InventoryError) as caught:
        decode(text.replace(old, new, 1).encode(), location="inv.json")
    assert "inv.json" in str(caught.value)


@pytest.mark.parametrize(
    "added", ["owners", "records", "intents", "drift", "orphaned", "overrides", "section", "key"]
)
def test_what_a_newer_version_added_is_an_error_that_names_the_upgrade(added):
    newer = json.loads(encode(document()))
    sections = newer["clusters"]["lkc"]
    match added:
        case "section":
            sections["holds"] = []
        case "key":
            sections["records"][0][3].append(1.0)
        case _:
            items = {"intents": 10, "overrides": 14}.get(added, len(sections[added][0]) + 1)
            sections[added][0] += [None] * (items - len(sections[added][0]))
    content = json.dumps(newer).encode()
    with pytest.raises(InventoryError, match=r"inv\.json was written by a newer kquota") as caught:
        decode(content, location="inv.json")
    assert "or a newer one" in caught.value.hint


def test_the_single_owner_of_an_earlier_row_owns_only_the_values_that_are_set():
    text = encode(document()).decode()
    full_row = "[1048576.0,null,50.5,null,null],[1,null,0,null,null]"
    assert full_row in text
    earlier = decode(
        text.replace(full_row, "[1048576.0,null,50.5],1", 1).encode(), location="inv.json"
    )
    record = earlier["lkc"].records[ALICE]
    owner = document()["lkc"].records[ALICE].owners[0]
    assert record == OwnershipRecord(
        (1048576.0, None, 50.5, None, None), (owner, None, owner, None, None)
    )


@given(st.integers(min_value=0), st.sampled_from([b"", b"x", b"\xff", b'"', b"{"]))
def test_a_truncated_or_modified_document_never_gives_an_empty_inventory(place, junk):
    content = encode(document())
    at = place % (len(content) - 2)
    for broken in (content[:at], content[:at] + junk + content[at + 1 :]):
        try:
            back = decode(broken, location="x")
        except InventoryError:
            continue
        assert len(back) == 1
        assert len(next(iter(back.values())).records) >= 2


EMPTY = '{"project":"","known":true,"ended":0.0,"owners":[],"records":[],"intents":[],"drift":[],"orphaned":[],"overrides":[]}'


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("clusters", "{}"),
        ("format", "1"),
        ("lkc", EMPTY),
        ("known", "true"),
        ("records", "[]"),
        ("\\u006bnown", "false"),
    ],
)
def test_a_name_that_is_given_twice_is_damage_even_if_the_last_one_would_do(name, value):
    text = encode(document()).decode()
    place = {"clusters": "{", "format": "{", "lkc": '"clusters":{\n'}.get(name, '"lkc":{\n')
    doubled = text.replace(place, f'{place}"{name}":{value},', 1)
    with pytest.raises(InventoryError, match=r"is damaged: the key '.*' is given twice"):
        decode(doubled.encode(), location="x")


def test_a_document_that_another_program_formatted_is_read():
    clusters = document()
    clusters["lkc"] = msgspec.structs.replace(clusters["lkc"], overrides={})
    formatted = json.dumps(json.loads(encode(clusters)), indent=2, sort_keys=True)
    assert decode(formatted.encode(), location="x") == clusters


@given(st.sampled_from([math.nan, math.inf]))
def test_a_record_without_a_finite_limit_is_never_written(value):
    """Null would be another record; the run ends before anything is sent."""
    change = Recorded(entity=ALICE, key=Key.PRODUCER_BYTE_RATE, value=value, owner=OWNER)
    owned = OwnershipRecords(cluster_id="lkc").with_changes([change])
    with pytest.raises(ValueError, match="JSON compliant"):
        encode({"lkc": owned})
