"""Outcomes as documents, and what a rollback reads from them."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.codecs.outcome import OutcomeWriter, outcome_document, read_outcome, read_undo
from reconciler.errors import ConfigError
from reconciler.quota.keys import Key
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.results.report import Outcome, PairOutcome, PairVisibility
from reconciler.quota.state import Applied, Held, Rejected, Unknown
from reconciler.render.json_values import dump
from tests.quota.strategies import ENTITIES
from tests.render.previews import golden, result

TEXT = dump(outcome_document(result()))

ODD = (None, 0.0, -0.0, 1.5, 2.0, 2.0**53, 2.0**60, 1e300, math.inf, -math.inf, math.nan)
VALUES = st.sampled_from(ODD)
RESULTS = st.sampled_from(
    [
        None,
        Applied(),
        Unknown(reason='lost "here"\n\u2028##[x]'),
        Unknown(reason=""),
        Held(waits_for=ENTITIES[:2]),
        Rejected(code=42, name="INVALID_REQUEST", message="no"),
    ]
)
PAIRS = st.builds(
    lambda entity, key, before, after, cause, result, visibility, value: PairOutcome(
        change=QuotaChange(entity=entity, key=key, before=before, after=after, cause=cause),
        result=result,
        visibility=visibility,
        observed_value=value,
    ),
    st.sampled_from(ENTITIES),
    st.sampled_from(Key),
    VALUES,
    VALUES,
    st.sampled_from(Cause),
    RESULTS,
    st.sampled_from(PairVisibility),
    VALUES,
)


def text_of(outcome: Outcome) -> str:
    return "".join(OutcomeWriter().pieces(outcome))


def outcome_of(pairs) -> Outcome:
    return Outcome(cluster_id="lkc-1", digest="sha256:0", pairs=pairs)


@given(st.lists(PAIRS, max_size=12).map(tuple), st.randoms())
def test_each_file_of_an_outcome_has_the_bytes_of_the_printed_document(pairs, random):
    writer = OutcomeWriter()
    for _ in range(3):
        text = "".join(writer.pieces(outcome_of(pairs)))
        assert text == dump(outcome_document(outcome_of(pairs)))
        shuffled = random.sample(pairs, len(pairs))
        pairs = tuple(
            replace(result_of, change=pair.change)
            for pair, result_of in zip(pairs, shuffled, strict=True)
        )


@given(st.lists(PAIRS, max_size=12).map(tuple))
def test_an_outcome_reads_back_as_it_was_written(pairs):
    written = text_of(outcome_of(pairs))
    formatted = json.dumps(json.loads(written), indent=1)
    for text in (written, formatted):
        read = read_outcome(text, location="x")
        assert repr(read.pairs) == repr(pairs)
        assert text_of(read) == written


@pytest.mark.golden
def test_the_document_of_an_outcome_has_the_published_form():
    golden("outcome.json", TEXT)


def test_a_rollback_reads_only_results_that_may_have_changed_the_cluster():
    undo = read_undo(TEXT, location="OUTCOME.json")
    expected = [
        (pair.change.pair, pair.change.before, pair.change.applied, pair.change.recorded)
        for pair in result().pairs
        if pair.status_text in {"APPLIED", "UNKNOWN"}
    ]
    assert [
        (change.pair, change.before, change.applied, change.recorded) for change in undo.changes
    ] == expected
    assert (undo.cluster_id, undo.digest) == ("lkc-1", result().digest)


def repeat_the_first_pair(document: dict) -> None:
    first = document["pairs"][0]
    document["pairs"].append(first)
    document["counts"][first["outcome"]] += 1


RECORD = {
    "value": 5.0,
    "document": "team/a",
    "deletionPolicy": "Delete",
    "since": 1.0,
    "orphaned": True,
}


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (
            lambda d: d["pairs"][0].update(outcome="FINE"),
            r"pairs\[0\]\.outcome should be another word than 'FINE', which is unknown",
        ),
        (
            lambda d: d["pairs"][0].update(before="x"),
            r"pairs\[0\]\.before should be another word than 'x', which is unknown",
        ),
        (
            lambda d: d["pairs"][0].pop("key"),
            r"pairs\[0\] should be an object with the field 'key'",
        ),
        (lambda d: d.update(kind="kquota-plan"), "not a kquota-outcome document but 'kquota-plan'"),
        (lambda d: d.update(format=9), "format is 9"),
        (lambda d: d.update(more=1), "the document should be .* without the unknown field 'more'"),
        (
            lambda d: d["pairs"][1].update(because="so"),
            r"pairs\[1\] should be an object without the unknown field 'because'",
        ),
        (lambda d: d.update(endedAt="9999-12-31T23:59:59-01:00"), "endedAt should be between"),
        (lambda d: d.update(endedAt="2025-11-21T12:00:00"), "endedAt should be datetime with"),
        (
            lambda d: d["counts"].update(FINE=1),
            "a name in counts should be another word than 'FINE'",
        ),
        (lambda d: d["origin"].update(more=1), "origin .* unknown field 'more'"),
        (
            lambda d: d["pairs"][0].update(entity=[["user", "a"], ["user", "b"]]),
            r"pairs\[0\]: entity type 'user' is given twice",
        ),
        (
            lambda d: d["pairs"][1].update(outcome="UNKNOWN"),
            r"pairs\[1\]: it is UNKNOWN without its details",
        ),
        (repeat_the_first_pair, "a quota key of an entity twice"),
        (
            lambda d: d["pairs"][0].update(record=RECORD | {"value": 0.0}),
            r"pairs\[0\]\.record\.value should be float > 0\.0",
        ),
        (
            lambda d: d["pairs"][0].update(record=RECORD | {"document": ""}),
            r"pairs\[0\]\.record\.document should be str of length >= 1",
        ),
    ],
)
def test_an_edited_outcome_is_refused_with_its_place(edit, words):
    document = json.loads(TEXT)
    edit(document)
    with pytest.raises(ConfigError, match=words):
        read_undo(json.dumps(document), location="OUTCOME.json")


def test_a_field_that_is_given_twice_is_refused():
    with pytest.raises(ConfigError, match="the key 'digest' is given twice"):
        read_undo(TEXT.replace('  "digest"', '  "digest": "other",\n  "digest"'), location="x")
