"""Outcomes as documents, and what a rollback reads of them."""

import json

import pytest

from reconciler.codecs.outcome import outcome_document, read_undo
from reconciler.errors import ConfigError
from reconciler.render.json_values import dump
from tests.render.previews import golden, result

TEXT = dump(outcome_document(result()))


@pytest.mark.golden
def test_the_document_of_an_outcome():
    golden("outcome.json", TEXT)


def test_a_rollback_reads_only_what_may_have_changed_the_cluster():
    undo = read_undo(TEXT, location="OUTCOME.json")
    expected = [
        (pair.change.entity, pair.change.key, pair.change.before)
        for pair in result().pairs
        if pair.status_text in {"APPLIED", "UNKNOWN"}
    ]
    assert list(undo.before) == expected
    assert (undo.cluster_id, undo.digest) == ("lkc-1", result().digest)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda d: d["pairs"][0].update(outcome="FINE"), r"pairs\[0\]\.outcome should be one of"),
        (lambda d: d["pairs"][0].update(before="x"), r"pairs\[0\]\.before should be a quota value"),
        (
            lambda d: d["pairs"][0].pop("key"),
            r"pairs\[0\] should be an object with the field 'key'",
        ),
        (lambda d: d.update(kind="kquota-plan"), "no kquota-outcome document but 'kquota-plan'"),
        (lambda d: d.update(format=9), "format is 9"),
        (lambda d: d.update(more=1), "unknown field 'more'"),
    ],
)
def test_an_edited_outcome_is_refused_with_its_place(edit, words):
    document = json.loads(TEXT)
    edit(document)
    with pytest.raises(ConfigError, match=words):
        read_undo(json.dumps(document), location="OUTCOME.json")


def test_an_outcome_that_does_not_name_its_cluster_is_read():
    document = json.loads(TEXT)
    del document["origin"]["cluster"]
    assert read_undo(json.dumps(document), location="OUTCOME.json").cluster == ""


def test_a_cut_off_outcome_is_refused():
    with pytest.raises(ConfigError, match=r"OUTCOME\.json: no whole JSON"):
        read_undo(TEXT[:-5], location="OUTCOME.json")
