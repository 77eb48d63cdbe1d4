"""Rows of changes and findings have the same facts when they are read; an edited row is refused or says what it says."""

import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.base.compact_json import lines
from reconciler.codecs.plan_rows import (
    ChangeRow,
    FindingRow,
    PrintedFinding,
    change_row,
    finding_row,
    printed_finding,
)
from reconciler.codecs.reader import decoded
from reconciler.errors import ConfigError, QuotaValueError
from reconciler.quota.entity import entity
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause
from reconciler.render.cause_text import REASONS, section_of
from tests.codecs.previews import ODD_VALUES, at_place, places
from tests.render.previews import ALICE, RATE, declare


def through_json(row, layout=lambda text: text):
    """A row that is written as a line and read again."""
    text = layout(lines([row]).decode("ascii"))
    return decoded(text, type(row), "plan.json")


def known_facts(value):
    """What a row says of a claim: name, file, line, selection and end, for its own key."""
    claim = value.claim
    return replace(
        value,
        claim=claim
        and replace(
            claim,
            line=claim.line_of(value.key),
            lines=(0,) * 5,
            selections=(claim.selection_of(value.key),) * 5,
        ),
    )


def same(first, second) -> bool:
    """Whether all facts are equal; NaN equals NaN, and -0.0 is another number than 0.0."""
    return repr(first) == repr(second)


@given(ODD_VALUES)
def test_a_change_is_read_as_it_was_written(odd):
    change = odd.change()
    row = change_row(change)
    assert same(through_json(row).change(), known_facts(change))
    assert same(through_json(row, lambda text: json.dumps(json.loads(text))), row)


@given(ODD_VALUES)
def test_a_row_has_the_effect_of_its_change(odd):
    effect = odd.effect(odd.change())
    row = through_json(change_row(effect.change, effect))
    assert same(row, change_row(effect.change, effect))
    assert row.effect.direction is effect.direction
    assert "effect" not in lines([change_row(effect.change)]).decode()


@given(ODD_VALUES)
def test_a_finding_is_read_as_it_was_written(odd):
    finding = odd.finding()
    row = finding_row(finding)
    assert same(through_json(row).finding(), known_facts(finding))
    assert same(through_json(row, lambda text: json.dumps(json.loads(text))), row)


@given(ODD_VALUES)
def test_a_printed_finding_has_its_section_and_reason_and_reads_as_reported(odd):
    finding = odd.finding()
    row = through_json(printed_finding(finding))
    assert (row.section, row.reason) == (section_of(finding), REASONS[finding.cause])
    read = row.finding()
    assert (read.pair, read.cause, read.note) == (finding.pair, finding.cause, finding.note)
    assert same(
        (read.desired, read.applied, read.live), (finding.desired, finding.applied, finding.live)
    )
    assert read.since == (None if finding.since is None else int(finding.since))
    assert read.ignored is (section_of(finding) == "ignored")
    assert (read.claim is None) is (finding.claim is None)
    if read.claim is not None:
        assert read.claim.place(read.key) == finding.claim.place(finding.key)


OTHER_VALUES = st.sampled_from(
    (
        *(None, True, False, 0, 1, 1.0, 2, 5, -1, 2**53 + 1, 10**400, 1e308, math.inf),
        *("", "x", "NaN", "-0.0", "create", "Create", "producer_byte_rate", "\ud800"),
        *([], {}, [[]], ["create"], [["user", "x"]], [["user", "x"], ["user", "y"]]),
    )
)


@given(ODD_VALUES, st.data())
def test_an_edited_row_is_refused_or_has_the_edited_meaning(odd, data):
    """No edit causes an internal error, and none is overlooked."""
    effect = odd.effect(odd.change())
    row = data.draw(
        st.sampled_from((change_row(effect.change, effect), finding_row(odd.finding())))
    )
    document = json.loads(lines([row]))
    *way, last = data.draw(st.sampled_from(places(document)))
    container = at_place(document, way)
    match data.draw(st.sampled_from(("replace", "remove", "add"))):
        case "replace":
            container[last] = data.draw(OTHER_VALUES)
        case "remove":
            del container[last]
        case _ if isinstance(container, dict):
            container[data.draw(st.sampled_from(("extra", "selection", "effect", "isNew")))] = "x"
        case _:
            container.append("x")
    try:
        read = decoded(json.dumps(document), type(row), "plan.json")
        value = read.change() if isinstance(read, ChangeRow) else read.finding()
    except (ConfigError, QuotaValueError):
        return
    again = change_row(value) if isinstance(read, ChangeRow) else finding_row(value)
    written = json.loads(lines([again]))
    document.pop("effect", None)
    # An omitted field has its default value, and a record of nobody without a value is none.
    meaning = json.loads(lines([read]))
    meaning.pop("effect", None)
    if meaning.get("record") == {"document": "", "value": None}:
        meaning["record"] = None
    assert written == meaning
    for name in document.keys() & meaning.keys() - {"record", "claim", "owner"}:
        assert meaning[name] == document[name]


def change(**facts) -> QuotaChange:
    return QuotaChange(
        **({"entity": ALICE, "key": RATE, "before": 1.0, "after": 2.0, "cause": Cause.SPEC} | facts)
    )


def row_of(**facts) -> dict:
    document = json.loads(lines([change_row(change(**facts))]))
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        ({"key": "x"}, "key should be another word than 'x', which is unknown"),
        ({"after": 1}, "after should be another value than before"),
        ({"after": "1"}, "after should be another word than '1'"),
        ({"before": True}, "before should be .*, not bool"),
        ({"cause": None}, "cause should be str, not null"),
        ({"entity": "user=alice"}, "entity should be array, not str"),
        ({"entity": [["user", 1]]}, r"entity\[0\]\[1\] should be str \| null, not int"),
        ({"entity": [["user", "a", "b"]]}, r"entity\[0\] should be array of length 2, not 3"),
        ({"entity": [["group", "a"]]}, "entity type 'group' is unknown"),
        ({"entity": []}, "an entity"),
        ({"note": None}, "note should be str, not null"),
        ({"extra": 1}, "the document should be an object without the unknown field 'extra'"),
        (
            {"claim": {"document": "a", "file": "b"}},
            "claim should be an object with the field 'line'",
        ),
        ({"owner": []}, r"owner should be object \| null, not array"),
        ({"record": {"value": 1, "document": 2}}, r"record\.document should be str, not int"),
        ({"effect": {}}, "effect should be an object with the field"),
        ({"ofOverride": 1}, "ofOverride should be bool, not int"),
    ],
)
def test_an_edited_change_is_refused_with_its_place(edits, words):
    with pytest.raises((ConfigError, QuotaValueError), match=words):
        decoded(json.dumps(row_of() | edits), ChangeRow, "plan.json").change()


@pytest.mark.parametrize("since", ["1", "nan", math.inf, True, 10**400, -1, 1e12])
def test_the_time_of_an_owner_is_a_time(since):
    owner = {"document": "team/alice", "deletionPolicy": None, "since": since}
    with pytest.raises(ConfigError, match=r"owner\.since|Infinity is no JSON"):
        decoded(json.dumps(row_of() | {"owner": owner}), ChangeRow, "plan.json")


@pytest.mark.parametrize("type_of_row", [ChangeRow, FindingRow, PrintedFinding])
def test_fields_are_declared_in_the_order_in_which_they_are_written(type_of_row):
    """So a document is the same text whether its rows are typed or not."""
    names = type_of_row.__struct_encode_fields__
    assert list(names) == sorted(names)


def test_a_row_has_no_field_with_a_default_value():
    declared = declare(ALICE, {RATE: 2.0})
    names = row_of(claim=declared)
    assert {"effect", "ofOverride"}.isdisjoint(names)
    assert {"selection", "until"}.isdisjoint(names["claim"])
    assert msgspec.json.decode(json.dumps(names), type=ChangeRow).change().claim.document == (
        declared.document
    )


def test_a_zero_keeps_its_sign_however_it_is_written():
    for zero in (-0.0, "-0.0"):
        read = decoded(json.dumps(row_of() | {"after": zero}), ChangeRow, "plan.json").change()
        assert math.copysign(1, read.after) == -1


def test_names_of_entities_remain_distinct():
    for name in (None, "", "<default>", "null"):
        subject = entity(user=name)
        assert through_json(change_row(change(entity=subject))).change().entity == subject
