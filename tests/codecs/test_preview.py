"""A plan document for display reads back equal, and a part that contradicts another one is refused."""

import json

import pytest
from msgspec.structs import replace

from reconciler.codecs.plan import read_plan, saved_plan
from reconciler.errors import ConfigError, StalePlan
from reconciler.quota.planner.desired_state import DeclarationConflict
from reconciler.quota.precedence import UnrankedLimit
from reconciler.render.json_values import dump
from reconciler.render.markdown.plan import plan_markdown
from reconciler.render.source_findings import plan_findings
from tests.render.previews import ALICE, NOW, RATE, declare, empty, sample


def again(preview):
    return read_plan(dump(saved_plan(preview)), location="plan.json")


def torn():
    """Conflicts and a snapshot."""
    claims = (declare(ALICE, {RATE: 1.0}), declare(ALICE, {RATE: 2.0}, document="other/alice"))
    plan = replace(
        sample().plan,
        conflicts=(DeclarationConflict(entity=ALICE, key=RATE, claims=claims),),
    )
    return replace(sample(), plan=plan, snapshot_at=NOW - 90_000)


@pytest.mark.parametrize("new_preview", [sample, empty, torn], ids=["rich", "empty", "torn"])
def test_a_read_preview_is_displayed_like_the_original(new_preview):
    read = again(new_preview())
    assert plan_markdown(read) == plan_markdown(new_preview())
    assert plan_findings(read) == plan_findings(new_preview())
    assert saved_plan(read) == saved_plan(new_preview())


def edited(change, layout=json.dumps):
    document = json.loads(dump(saved_plan(torn())))
    change(document)
    return layout(document)


LIES = {
    "fewer removals than there are": lambda d: d["counts"].update(remove=0),
    "a count too many": lambda d: d["counts"].update(more=0),
    "nothing wrong with it": lambda d: d.update(errored=False),
    "it may be applied": lambda d: d.update(applyable=True),
    "a finding under another heading": lambda d: d["unmanaged"].append(d["newOrphans"].pop()),
    "a reason of somebody's own": lambda d: d["newOrphans"][0].update(reason="all is well"),
    "another text for an entity": lambda d: d["unmanaged"][0].update(text="user=nobody"),
    "another flag that allows it": lambda d: d["violations"][0].update(allowWith="--please"),
    "a guard that we do not have": lambda d: d["violations"][0].update(guard="mood"),
    "a text for an entity that a violation has not": lambda d: d["violations"][0].update(text="x"),
    "another factor of a change": lambda d: d["changes"][1]["effect"].update(factor=9.0),
    "another way for a client": lambda d: d["impact"]["affected"][0].update(direction="tightened"),
    "another factor for a client": lambda d: d["impact"]["affected"][0].update(factor=9.0),
    "another sharing of a bucket": lambda d: d["impact"]["affected"][0].update(sharing="split"),
    "fewer hidden rules than are named": lambda d: d["impact"]["hiding"][0].update(total=1),
    "an orphan that hides nothing": lambda d: d["impact"]["hiding"][0].update(rules=[]),
    "a hidden rule without a value": lambda d: d["impact"]["hiding"][0]["rules"][0].update(
        value=None
    ),
    "an effect left out": lambda d: d["changes"][0].pop("effect"),
    "an unknown direction": lambda d: d["changes"][0]["effect"].update(direction="up"),
    "another level than the source has": lambda d: d["impact"]["affected"][0]["after"].update(
        level=8
    ),
    "no time": lambda d: d.update(snapshotTakenAt="yesterday"),
    "a time without a zone": lambda d: d.update(snapshotTakenAt="2025-11-21T12:00:00"),
    "a field that we do not know": lambda d: d["conflicts"][0].update(note="hello"),
}


@pytest.mark.parametrize("layout", [json.dumps, dump])
def test_a_document_may_be_laid_out_in_any_way(layout):
    assert read_plan(edited(lambda d: None, layout), location="plan.json")


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_a_contradictory_document_is_refused_with_the_place(lie):
    with pytest.raises(ConfigError, match=r"plan\.json: "):
        read_plan(edited(lie), location="plan.json")


def test_another_format_is_stale_and_a_truncated_document_is_refused():
    with pytest.raises(StalePlan):
        read_plan(edited(lambda d: d.update(format=99)), location="plan.json")
    text = dump(saved_plan(sample()))
    for size in range(0, len(text) - 2, 997):
        with pytest.raises(ConfigError):
            read_plan(text[:size], location="plan.json")


def places(value, way=()):
    """All paths in a document."""
    yield way
    if isinstance(value, dict):
        for name, child in value.items():
            yield from places(child, (*way, name))
    elif isinstance(value, list):
        for at, child in enumerate(value[:1]):
            yield from places(child, (*way, at))


ODD = (None, True, -1, 10**400, 1e308, "", "x", "NaN", "\ud800", [], {}, [[]], [["user", "x"]])


def test_any_value_at_any_place_is_read_and_shown_or_refused():
    """Untrusted input: no value in any place causes an internal error."""
    document = json.loads(dump(saved_plan(torn())))
    refused = readable_count = 0
    for number, way in enumerate(list(places(document))):
        for odd in ODD[number % 6 :: 6]:
            if not way:
                continue
            at = document
            for step in way[:-1]:
                at = at[step]
            original, at[way[-1]] = at[way[-1]], odd
            text = json.dumps(document)
            at[way[-1]] = original
            try:
                preview = read_plan(text, location="plan.json")
            except (ConfigError, StalePlan):
                refused += 1
                continue
            readable_count += 1
            plan_markdown(preview).encode()
            assert saved_plan(preview) == json.loads(text)
            plan_findings(preview)
    assert refused > 200
    assert readable_count > 10


def test_limits_of_types_that_kafka_does_not_rank_are_read_back_and_omitted_when_empty():
    preview = sample()
    affected = preview.impact.affected[0]
    unranked = UnrankedLimit(entity=(("client-id-prefix", "etl-"), ("user", None)), value=5.0)
    unknown = replace(affected, after=replace(affected.after, unranked=(unranked,)))
    impact = replace(preview.impact, affected=(unknown, *preview.impact.affected[1:]))
    read = again(replace(preview, impact=impact))
    assert read.impact.affected[0].after.unranked == (unranked,)
    assert not read.impact.affected[0].after.is_known
    assert "unranked" not in dump(saved_plan(preview))
