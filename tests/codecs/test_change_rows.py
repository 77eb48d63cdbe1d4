"""A row of a change reads back as it was written; any other row is refused."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from reconciler.codecs.change_rows import ChangeReader, change_row

from reconciler.codecs.reader import DocumentReader
from reconciler.errors import ConfigError
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner
from reconciler.quota.planner.effects import LimitEffect
from reconciler.quota.planner.impact import Direction, Effect
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause, DeletionPolicy
from tests.quota.strategies import ENTITIES
from tests.render.previews import RATE, declare

VALUES = st.sampled_from((None, -0.0, 1.5, 2.0, 2.0**53, 1e300, float("inf"), float("nan")))
NAMES = st.sampled_from(("team/a", 'x"\\\n\u2028é'))


@st.composite
def change_rows(draw) -> dict[str, object]:
    """A row as it is parsed from a document."""
    subject, key, applied = (
        draw(st.sampled_from(ENTITIES)),
        draw(st.sampled_from(Key)),
        draw(VALUES),
    )
    before, after = draw(st.tuples(VALUES, VALUES).filter(lambda values: values[0] != values[1]))
    claim = declare(subject, {RATE: 1.0}, line=draw(st.integers(1, 9)), document=draw(NAMES))
    claim = replace(claim, path=draw(NAMES), selections=(draw(st.just("") | NAMES),) * 5)
    owners = st.builds(
        Owner,
        document=NAMES,
        deletion_policy=st.none() | st.sampled_from(DeletionPolicy),
        since=st.sampled_from((0.0, 1.0, 1_763_726_400.25)),
    )
    change = QuotaChange(
        entity=subject,
        key=key,
        before=before,
        after=after,
        cause=draw(st.sampled_from(Cause)),
        claim=draw(st.sampled_from((None, claim))),
        owner=draw(st.none() | owners),
        applied=applied,
        recorded=draw(st.none() | st.builds(Owner, document=NAMES)),
        note=draw(st.just("") | NAMES),
    )
    limits = LimitEffect(before=draw(VALUES), after=draw(VALUES), is_decisive=True)
    effect = Effect(
        change, draw(st.sampled_from(Direction)), limits.before, limits.after, limits.factor
    )
    row = change_row(change, draw(st.sampled_from((None, effect))))
    return json.loads(json.dumps(row))


class WrittenRow(DocumentReader):
    """A row that must be recognised unchanged."""

    __slots__ = ()

    def expect(self, document: object) -> None:
        raise AssertionError(f"the row is written again: {document}")


@given(st.lists(change_rows(), min_size=1, max_size=3))
def test_an_unchanged_row_is_recognised_without_writing_it_again(rows):
    """Otherwise each of 30,000 rows would be built and compared once more."""
    read_change = ChangeReader()
    for row in rows:
        assert json.loads(json.dumps(change_row(*read_change(WrittenRow(row))))) == row


OTHER_VALUES = st.sampled_from(
    (
        None,
        True,
        False,
        0,
        1,
        1.0,
        2,
        5,
        -0.0,
        2**53 + 1,
        "",
        "x",
        "NaN",
        "create",
        [],
        {},
        ["create"],
    )
)


def places(value: object) -> list[tuple[dict[str, object] | list[object], object]]:
    """Every container with each of its keys or indices."""
    if isinstance(value, dict):
        inner = [place for item in value.values() for place in places(item)]
        return [*((value, name) for name in value), *inner]
    if isinstance(value, list):
        inner = [place for item in value for place in places(item)]
        return [*((value, at) for at in range(len(value))), *inner]
    return []


@pytest.mark.parametrize("since", ["1", "nan", math.inf, True, 10**400])
def test_the_time_of_an_owner_is_a_finite_number(since):
    owner = Owner(document="team/alice", since=1.0)
    change = QuotaChange(
        entity=ENTITIES[0], key=RATE, before=None, after=2.0, cause=Cause.SPEC, owner=owner
    )
    row = change_row(change, None)
    row["owner"]["since"] = since
    with pytest.raises(ConfigError, match=r"owner\.since"):
        ChangeReader()(DocumentReader(row))


@given(change_rows(), st.data())
def test_an_edited_row_is_refused_unless_its_meaning_is_unchanged(row, data):
    container, place = data.draw(st.sampled_from(places(row)))
    match data.draw(st.sampled_from(("replace", "remove", "add"))):
        case "replace":
            container[place] = data.draw(OTHER_VALUES)
        case "remove":
            del container[place]
        case _ if isinstance(container, dict):
            container[data.draw(st.sampled_from(("extra", "selection", "effect")))] = "x"
        case _:
            container.append("x")
    try:
        change_read = ChangeReader()(DocumentReader(row))
    except ConfigError:
        return
    DocumentReader(row).expect(change_row(*change_read))
