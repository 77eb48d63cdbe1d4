"""The audit log as the history of a page: selection of entries, and problems of a log."""

import pytest

from reconciler.codecs import audit_log
from reconciler.codecs.audit_log import history_of
from reconciler.errors import ConfigError
from tests.fakes.audit_entry import audit_entry as entry


def test_the_newest_entries_come_first_and_other_clusters_are_omitted():
    log = [entry(author="one"), entry(cluster_id="other"), entry(author="two")]
    history = history_of(log, cluster_id="lkc-1", location="audit.jsonl")
    assert [item.author for item in history.entries] == ["two", "one"]
    assert history.left_out == 0
    assert len(history_of(log, cluster_id="", location="audit.jsonl").entries) == 3


def test_of_a_long_log_the_newest_entries_are_used(monkeypatch):
    monkeypatch.setattr(audit_log, "MOST_PAST_CHANGES", 2)
    history = history_of(
        [entry(author=str(at)) for at in range(5)], cluster_id="lkc-1", location="x"
    )
    assert [item.author for item in history.entries] == ["4", "3"]
    assert history.left_out == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"entity": (("user", "a"), ("user", "b"))}, "entry 2: entity type 'user' is given twice"),
        ({"entity": (("topic", "a"),)}, "entry 2: entity type 'topic' is unknown"),
        ({"key": "made_up"}, "entry 2: 'made_up' is not a valid Key"),
    ],
)
def test_an_entry_about_nothing_that_this_version_knows_is_named_by_its_number(changes, words):
    with pytest.raises(ConfigError, match=words):
        history_of([entry(), entry(**changes)], cluster_id="lkc-1", location="audit.jsonl")


INTENT = {"outcome": "INTENDED", "time": "2025-11-21T11:59:00Z"}
OUTCOME = {"intended_at": INTENT["time"]}


@pytest.mark.parametrize(
    ("log", "outcomes"),
    [
        ([INTENT], ["INTENDED"]),
        ([INTENT, OUTCOME], ["APPLIED"]),
        ([INTENT, OUTCOME | {"outcome": "NOT LANDED"}], ["NOT LANDED"]),
        ([INTENT, OUTCOME | {"outcome": "UNKNOWN"}], ["UNKNOWN"]),
        ([INTENT, OUTCOME | {"outcome": "UNKNOWN", "visibility": "visible"}], ["UNKNOWN"]),
        ([INTENT, {"outcome": "HELD"}], ["HELD", "INTENDED"]),
        ([INTENT, INTENT | {"author": "next"}, OUTCOME], ["APPLIED"]),
        ([INTENT, OUTCOME, INTENT], ["INTENDED", "APPLIED"]),
        ([INTENT, OUTCOME | {"key": "consumer_byte_rate"}], ["APPLIED", "INTENDED"]),
        ([INTENT, OUTCOME | {"entity": (("user", "bob"),)}], ["APPLIED", "INTENDED"]),
    ],
)
def test_an_intent_is_in_the_history_only_while_it_has_no_outcome(log, outcomes):
    history = history_of([entry(**line) for line in log], cluster_id="lkc-1", location="x")
    assert [past.outcome for past in history.entries] == outcomes


@pytest.mark.parametrize("cluster_id", ["lkc-1", ""])
def test_an_outcome_of_another_cluster_does_not_close_an_intent(cluster_id):
    log = [entry(**INTENT), entry(**OUTCOME, cluster_id="other")]
    history = history_of(log, cluster_id=cluster_id, location="x")
    assert "INTENDED" in [past.outcome for past in history.entries]


def test_an_intent_with_its_outcome_uses_one_row_of_a_page(monkeypatch):
    monkeypatch.setattr(audit_log, "MOST_PAST_CHANGES", 2)
    log = [entry(**line, author=str(at)) for at in range(3) for line in (INTENT, OUTCOME)]
    history = history_of(log, cluster_id="lkc-1", location="x")
    assert [(past.author, past.outcome) for past in history.entries] == [
        ("2", "APPLIED"),
        ("1", "APPLIED"),
    ]
    assert history.left_out == 1
