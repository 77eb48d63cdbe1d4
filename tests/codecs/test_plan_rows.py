"""Rows of changes and findings have the same facts when they are read; an edited row is refused or says what it says."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from tests.render.previews import ALICE, RATE


def through_json(row, layout=lambda text: text):
    """A row that is written as a line and read again."""
    text = layout(lines([row]).decode("ascii"))
    return decoded(text, type(row), "plan.json")


def same(first, second) -> bool:
    """Whether all facts are equal; NaN equals NaN, and -0.0 is another number than 0.0."""
    return repr(first) == repr(second)


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


@pytest.mark.parametrize("type_of_row", [ChangeRow, FindingRow, PrintedFinding])
def test_fields_are_declared_in_the_order_in_which_they_are_written(type_of_row):
    """So a document is the same text whether its rows are typed or not."""
    names = type_of_row.__struct_encode_fields__
    assert list(names) == sorted(names)


def test_names_of_entities_remain_distinct():
    for name in (None, "", "<default>", "null"):
        subject = entity(user=name)
        assert through_json(change_row(change(entity=subject))).change().entity == subject
