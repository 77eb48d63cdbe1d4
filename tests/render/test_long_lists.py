"""Long lists on a terminal: cut before their rows are built, with the total count, and complete on request."""

from msgspec.structs import replace

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.results.report import ValidationResult
from reconciler.quota.rule_warnings import RuleWarning, WarningKind
from reconciler.quota.state import Rejected
from reconciler.render.terminal import SHOWN_TROUBLE, SHOWN_WARNINGS, plan_text
from tests.render.previews import declare, empty


def test_refusals_and_violations_have_a_larger_bound():
    refused = {
        entity(user=f"u{at}"): Rejected(code=42, name="INVALID_REQUEST", message="no")
        for at in range(SHOWN_TROUBLE + 5)
    }
    preview = replace(empty(), verdict=ValidationResult(source="broker", rejections=refused))
    text = plan_text(preview)
    assert f"The broker would refuse ({SHOWN_TROUBLE + 5})" in text
    assert text.count("INVALID_REQUEST") == SHOWN_TROUBLE
    assert "and 5 more" in text
    assert plan_text(preview, verbose=True).count("INVALID_REQUEST") == SHOWN_TROUBLE + 5


def test_warnings_about_changed_documents_come_first_and_few_of_the_others_are_listed():
    documents = [f"shop/d{at}" for at in range(SHOWN_WARNINGS + 5)]
    advice = tuple(
        RuleWarning(
            claim=declare(entity(user="a"), {Key.PRODUCER_BYTE_RATE: 1.0}, document=name),
            kind=WarningKind.WILDCARD,
            message=f"doubtful {name}",
        )
        for name in documents
    )
    preview = replace(empty(), advice=advice, changed_documents=frozenset(documents[-1:]))
    text = plan_text(preview)
    first = text.index("Warnings")
    assert text.index(f"doubtful {documents[-1]}", first) < text.index(f"doubtful {documents[0]}")
    assert text.count("doubtful") == SHOWN_WARNINGS
    assert "and 5 more" in text
    assert plan_text(preview, verbose=True).count("doubtful") == len(documents)
