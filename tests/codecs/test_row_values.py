"""Values of rows are read as they were written, and anything else is refused with its place."""

import json
from collections.abc import Mapping
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.codecs.row_values import json_of, read_row, row_document
from reconciler.errors import ConfigError
from reconciler.usage.impact.result_rows import EvidenceNote, ImpactRow, RecommendationRow
from reconciler.usage.reports.usage import CapacityRow, NoisyRow, ResultOrigin, UsageRow
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import Bucket, bucket_of

KINDS = (EvidenceNote, ImpactRow, RecommendationRow, UsageRow, CapacityRow, NoisyRow, ResultOrigin)
NOTE = EvidenceNote(cluster_id="c", partial=("a gap",), counts={"gaps": 2})

AMOUNTS = st.integers(0, 2**62)
STRATEGIES = {
    int: AMOUNTS,
    int | None: st.none() | AMOUNTS,
    Mapping[str, int]: st.dictionaries(st.text(), AMOUNTS),
}
"""Numbers of rows are not negative."""


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_every_value_is_read_as_it_was_written(kind: type[object], data: st.DataObject) -> None:
    hints = get_type_hints(kind)
    numbers = {name: STRATEGIES[hint] for name, hint in hints.items() if hint in STRATEGIES}
    value = data.draw(st.builds(kind, **numbers))
    document = row_document(value)
    assert read_row(json.loads(json.dumps(document)), kind) == value
    names = hints.keys()
    bucket_names = set(Bucket(kind=bucket_of().kind).columns) if "bucket" in names else set()
    assert document.keys() == (names - {"bucket"}) | bucket_names


@pytest.mark.parametrize("value", [3, ...])
def test_a_column_that_is_absent_or_of_another_type_is_refused(value: object) -> None:
    document = dict(row_document(NOTE)) | {"cluster_id": value}
    columns = {key: item for key, item in document.items() if item is not ...}
    with pytest.raises(ConfigError, match="cluster_id"):
        read_row(columns, EvidenceNote)


def test_values_that_json_cannot_represent_are_texts_or_refused() -> None:
    assert json_of([float("inf"), 5.0, QuotaType.FETCH, None]) == ["Infinity", 5, "fetch", None]
    with pytest.raises(TypeError, match="set has no JSON"):
        json_of({1})
