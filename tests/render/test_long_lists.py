"""Long lists on a terminal: cut before their rows are built, with the total count, and complete on request."""

from msgspec.structs import replace

from reconciler.quota.entity import entity
from reconciler.quota.results.report import ValidationResult
from reconciler.quota.state import Rejected
from reconciler.render.terminal import SHOWN_TROUBLE, plan_text
from tests.render.previews import empty


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
