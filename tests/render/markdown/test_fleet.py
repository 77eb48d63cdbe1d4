"""One comment for the plans of many clusters: bounded, and without foreign Markdown."""

from collections.abc import Callable

from reconciler.quota.results.report import Preview
from reconciler.render.fleet_summary import FleetOutcome, FleetRow
from reconciler.render.markdown.comment import CommentContext
from reconciler.render.markdown.fleet import PostedFleet, PostedPlan, fleet_markdown
from tests.render.previews import empty, sample


def fleet(*names: str, new_preview: Callable[[], Preview] = sample) -> PostedFleet:
    rows = [
        FleetRow(cluster=name, outcome=FleetOutcome.OK, changes=0, drift=0, refused=0, seconds=0.0)
        for name in names
    ]
    plans = [PostedPlan(cluster=name, preview=new_preview(), recorded=None) for name in names]
    return PostedFleet(rows=tuple(rows), plans=tuple(plans))


def comment(posted: PostedFleet, *, limit: int = 65_000) -> str:
    return fleet_markdown(posted, limit=limit, max_rows=25, context=CommentContext())


def test_clusters_without_changes_have_a_row_only():
    text = comment(fleet("eu", "us", new_preview=empty))
    assert "<details>" not in text
    assert text.count("| `") == 2


def test_the_name_of_a_cluster_cannot_be_a_mention():
    assert "<summary><code>&#64;</code>team</summary>" in comment(fleet("@team"))


def test_rows_beyond_the_limit_are_counted_and_not_truncated():
    text = comment(fleet(*(f"c{number}" for number in range(40))), limit=12_000)
    assert len(text) <= 12_000
    assert text.count("<details>") == text.count("</details>") > 0
    assert f"… and {40 - text.count('<details>')} more plans." in text


def test_names_cannot_forge_a_row_or_a_tag():
    text = comment(fleet("</summary><img src=x>|\n# forged"))
    assert "<img" not in text
    assert "\n# forged" not in text
