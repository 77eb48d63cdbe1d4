"""An outcome for display reads back equal; an edited one is refused with the place."""

import json

import pytest

from reconciler.codecs.outcome import outcome_document, read_outcome
from reconciler.errors import ConfigError
from reconciler.quota.results.report import Outcome
from reconciler.render.json_values import dump
from reconciler.render.markdown.outcome import outcome_markdown
from tests.render.previews import result


def test_a_read_outcome_is_displayed_like_the_original():
    for outcome in (result(), Outcome(cluster_id="lkc-1", digest="sha256:0")):
        read = read_outcome(dump(outcome_document(outcome)), location="outcome.json")
        assert outcome_markdown(read) == outcome_markdown(outcome)


EDITS = {
    "complete": lambda d: d.update(complete="yes"),
    "an unknown word": lambda d: d["pairs"][0].update(outcome="FINE"),
    "a refusal without words": lambda d: next(
        p for p in d["pairs"] if p["outcome"] == "REJECTED"
    ).pop("error"),
    "an unknown look": lambda d: d["pairs"][0].update(seen="maybe"),
    "no time": lambda d: d.update(endedAt="later"),
    "a count of an unknown word": lambda d: d["counts"].update(FINE=1),
    "no counts": lambda d: d.pop("counts"),
    "a field more": lambda d: d.update(hello=1),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_an_edited_outcome_is_refused(edit):
    document = json.loads(dump(outcome_document(result())))
    edit(document)
    with pytest.raises(ConfigError, match=r"outcome\.json: "):
        read_outcome(json.dumps(document), location="outcome.json")


DERIVED = {
    "complete": lambda d: d.update(complete=True),
    "more applied than there are pairs": lambda d: d["counts"].update(APPLIED=278),
    "a count less": lambda d: d["counts"].pop("HELD"),
    "another text of an entity": lambda d: d["pairs"][0].update(text="user=mallory"),
    "a reason of what was applied": lambda d: d["pairs"][0].update(why="all is well"),
}


@pytest.mark.parametrize("edit", DERIVED.values(), ids=DERIVED.keys())
def test_what_follows_from_the_pairs_is_shown_as_it_follows(edit):
    document = json.loads(dump(outcome_document(result())))
    edit(document)
    read = read_outcome(json.dumps(document), location="outcome.json")
    assert outcome_document(read) == outcome_document(result())
    assert outcome_markdown(read) == outcome_markdown(result())
