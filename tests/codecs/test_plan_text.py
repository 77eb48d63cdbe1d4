"""The text of a plan is read quickly only where it is exactly what the writer writes."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.base.output_text import json_text
from reconciler.codecs.plan import plan_document, read_plan, read_preview
from reconciler.codecs.plan_rows import change_row
from reconciler.codecs.plan_text import change_text, read_change_texts, split_changes
from reconciler.errors import ConfigError
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner
from reconciler.quota.planner.impact import Direction, Effect
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.planner.preconditions import Precondition
from reconciler.quota.policy import Cause, DeletionPolicy
from reconciler.render.json_values import dump, text_of
from tests.quota.strategies import ENTITIES
from tests.render.previews import RATE, declare, sample

TEXT = dump(plan_document(sample()))
START, END = '\n  "changes": [\n    ', "\n  ]"
ROWS = TEXT.partition(START)[2].partition(END)[0]
VALUES = st.sampled_from((None, -0.0, 1.5, 2.0, 2.0**53, 1e300, float("inf"), float("nan")))
NAMES = st.sampled_from(("", "team/a", 'x"\\\n\u2028é'))


@st.composite
def changes_with_effects(draw):
    subject, key, value = draw(st.sampled_from(ENTITIES)), draw(st.sampled_from(Key)), draw(VALUES)
    claim = declare(subject, {RATE: 1.0}, line=draw(st.integers(1, 9)), document=draw(NAMES))
    claim = replace(claim, path=draw(NAMES), selections=(draw(NAMES),) * 5)
    change = QuotaChange(
        entity=subject,
        key=key,
        before=value,
        after=draw(VALUES),
        cause=draw(st.sampled_from(Cause)),
        claim=draw(st.sampled_from((None, claim))),
        owner=draw(
            st.none()
            | st.builds(
                Owner,
                document=NAMES,
                deletion_policy=st.none() | st.sampled_from(DeletionPolicy),
                since=st.sampled_from((0.0, 1_763_726_400.25)),
            )
        ),
        note=draw(NAMES),
    )
    effect = Effect(
        change=change,
        direction=draw(st.sampled_from(Direction)),
        before=draw(VALUES),
        after=draw(VALUES),
        factor=draw(st.sampled_from((None, 0.5, 1e300))),
    )
    precondition = Precondition(
        entity=subject, key=key, live=value, applied=draw(VALUES), document=draw(NAMES)
    )
    return change, draw(st.sampled_from((None, effect))), precondition


@given(changes_with_effects())
def test_the_text_of_a_change_is_that_of_its_row(change_with_effect):
    assert change_text(*change_with_effect) == text_of(change_row(*change_with_effect))


def test_rows_as_they_were_written_are_compared_as_text():
    """Without this, each of 30,000 rows is built as a dict and compared field by field."""
    rows = read_change_texts(ROWS)
    assert rows is not None
    split = split_changes(TEXT)
    assert split is not None
    assert split[1] == rows
    assert json.loads(split[0]) == json.loads(TEXT) | {"changes": []}
    assert [row.change for row in rows] == list(
        read_plan(json.dumps(json.loads(TEXT)), location="plan.json").plan.changes
    )


@given(st.integers(0, len(ROWS)), st.integers(0, 3), st.sampled_from(("", " ", "0", '"', "a", "{")))
def test_rows_that_were_edited_are_never_taken_as_text(place, length, characters):
    text = ROWS[:place] + characters + ROWS[place + length :]
    rows = read_change_texts(text)
    assert rows is None or json_text(",\n    ".join(change_text(*row) for row in rows)) == text


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.replace('"level":', '"level":1,"level":', 1),
        lambda rows: rows.replace('"note":', '"extra":1,"note":', 1),
        lambda rows: rows.replace('{"actions"', '{ "actions"', 1),
        lambda rows: "[" * 100_000,
        lambda rows: rows + ",\n    ",
    ],
)
def test_rows_that_the_writer_does_not_write_are_not_taken_as_text(change):
    assert read_change_texts(change(ROWS)) is None


def test_only_changes_at_the_top_of_a_document_count():
    document = json.loads(TEXT) | {"changes": []}
    hidden = json.dumps(document).replace('"impact": {', f'"impact": {{{START}{ROWS}{END}, ', 1)
    assert json.loads(hidden)["impact"]["changes"] == json.loads(TEXT)["changes"]
    with pytest.raises(ConfigError, match="edited"):
        read_plan(hidden, location="plan.json")


def test_an_apply_needs_no_more_of_the_impact_than_json():
    """The impact of 10,000 clients is a third of a plan, and applying does not use it."""
    twice = TEXT.replace('"impact": {', '"impact": {"known": 1, ', 1)
    assert read_plan(twice, location="plan.json").plan.digest == sample().plan.digest
    with pytest.raises(ConfigError, match="the key 'known' is given twice"):
        read_preview(twice, location="plan.json")
    with pytest.raises(ConfigError, match="not a complete JSON document"):
        read_plan(TEXT.replace('"impact": {', '"impact": {"known" 1, ', 1), location="plan.json")
