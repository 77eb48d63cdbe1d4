"""An edited outcome for display is refused with the place."""

import json

import pytest

from reconciler.codecs.outcome import outcome_document, read_outcome
from reconciler.errors import ConfigError
from reconciler.render.json_values import dump
from tests.render.previews import result

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
