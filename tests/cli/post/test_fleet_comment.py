"""`kquota post` with the plans of many clusters: one comment, bounded, strict about what it reads."""

import json

import pytest

from reconciler.cli.post.fleet_comment import fleet_markdown, read_fleet
from reconciler.codecs.plan import plan_document
from reconciler.errors import ConfigError
from reconciler.render.json_values import dump
from reconciler.render.markdown.comment import CommentContext
from tests.cli.post.test_commands import api, saved
from tests.forge.test_github_runner import read_outputs
from tests.render.previews import empty, sample

__all__ = ["api"]


def row(cluster: str, result: str = "ok", numbers: int | None = 0) -> dict[str, object]:
    return {"cluster": cluster, "result": result} | dict.fromkeys(
        ("changes", "drift", "refused"), numbers
    )


def document(*names: str, made=sample) -> dict[str, object]:
    plans = [{"cluster": name, "plan": plan_document(made())} for name in names]
    rows = [row(name) for name in names]
    return {"kind": "kquota-plans", "format": 1, "plans": plans, "summary": rows}


def comment(made: dict[str, object], *, limit: int = 65_000) -> str:
    fleet = read_fleet(dump(made), location="plans.json")
    return fleet_markdown(fleet, limit=limit, max_rows=25, context=CommentContext())


def test_many_clusters_are_one_comment_with_outputs(kquota, folder, api):
    plans = document("eu", "us")
    plans["summary"].append(row("lost", "unreachable", None))
    ran = kquota("post", "github", saved(folder, plans), "--pull", "7", "--outputs")
    assert ran.code == 0
    (body,) = api.bodies(7)
    assert body.startswith(
        "<!-- kquota:plan: -->\n### ⚠️ Needs attention: Kafka quotas of 3 clusters\n"
    )
    assert "| `lost` | unreachable | - | - | - |" in body
    assert body.index("<summary>eu</summary>") < body.index("<summary>us</summary>")
    outputs = read_outputs((folder / "output").read_text())
    assert (outputs["clusters"], outputs["changed-clusters"]) == ("3", "2")
    assert (outputs["has-changes"], outputs["errored"]) == ("true", "true")


def test_clusters_without_changes_are_rows_only():
    text = comment(document("eu", "us", made=empty))
    assert "<details>" not in text
    assert text.count("| `") == 2


def test_the_name_of_a_cluster_is_no_mention():
    assert "<summary><code>&#64;</code>team</summary>" in comment(document("@team"))


def test_what_does_not_fit_is_counted_and_not_cut():
    text = comment(document(*(f"c{number}" for number in range(40))), limit=12_000)
    assert len(text) <= 12_000
    assert text.count("<details>") == text.count("</details>") > 0
    assert f"… and {40 - text.count('<details>')} more plans." in text


def test_a_name_forges_neither_a_row_nor_a_tag():
    text = comment(document("</summary><img src=x>|\n# forged"))
    assert "<img" not in text
    assert "\n# forged" not in text


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("summary", 0, "result"), "fine", "summary[0].result"),
        (("summary", 0, "changes"), "3", "summary[0].changes"),
        (("summary", 0, "more"), 1, "summary[0]"),
        (("plans", 0, "plan"), [], "plans[0].plan"),
        (("plans", 0, "plan", "digest"), "edited", "digest"),
        (("more",), 1, "more"),
    ],
)
def test_an_edited_document_is_refused_at_its_place(path, value, place):
    made = json.loads(dump(document("eu")))
    at = made
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    with pytest.raises(ConfigError) as caught:
        read_fleet(dump(made), location="plans.json")
    assert place in str(caught.value) + str(caught.value.key)


def test_plans_are_no_report_of_drift(kquota, folder, api):
    ran = kquota("post", "github", saved(folder, document("eu")), "--pull", "7", "--issue")
    assert ran.code == 1
