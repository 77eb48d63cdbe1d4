"""A saved plan reads back equal; edited, truncated, foreign and newer ones are refused with their place."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.codecs.plan import plan_document, read_plan, saved_plan
from reconciler.codecs.plan_file import PlanFile
from reconciler.errors import ConfigError, StalePlan
from reconciler.quota.planner.desired_state import DeclarationConflict
from reconciler.quota.precedence import UnrankedLimit
from reconciler.render.json_values import dump
from reconciler.render.markdown.plan import plan_markdown
from reconciler.render.source_findings import plan_findings
from tests.codecs.previews import ODD_VALUES, at_place, places
from tests.render.previews import ALICE, NOW, RATE, declare, sample

TEXT = dump(saved_plan(sample()))


def read(text: str):
    return read_plan(text, location="plan.json")


def torn():
    """Conflicts and a snapshot."""
    claims = (declare(ALICE, {RATE: 1.0}), declare(ALICE, {RATE: 2.0}, document="other/alice"))
    plan = replace(
        sample().plan, conflicts=(DeclarationConflict(entity=ALICE, key=RATE, claims=claims),)
    )
    return replace(sample(), plan=plan, snapshot_at=NOW - 90_000)


# ---- reading back ----------------------------------------------------------------------------


def test_changes_and_fallbacks_of_a_plan_read_back():
    result, expected = read(TEXT), sample()
    assert result.digest == expected.digest
    assert result.fallbacks == expected.fallbacks
    assert (result.created_at, result.origin, result.policy) == (
        expected.created_at,
        expected.origin,
        expected.policy,
    )
    for change, expected_change in zip(result.plan.changes, expected.plan.changes, strict=True):
        assert replace(change, claim=None, recorded=None) == replace(
            expected_change, claim=None, recorded=None
        )
        assert (change.claim is None) == (expected_change.claim is None)
        if change.claim is not None:
            assert change.claim.place(change.key) == expected_change.claim.place(
                expected_change.key
            )
            assert change.claim.document == expected_change.claim.document


@given(ODD_VALUES)
def test_any_plan_is_printed_alike_before_and_after_it_was_saved(odd):
    """So what is saved is enough: every field that is printed follows from it."""
    preview = odd.preview()
    text, printed = dump(saved_plan(preview)), dump(plan_document(preview))
    for layout in (text, json.dumps(json.loads(text))):
        again = read(layout)
        assert dump(plan_document(again)) == printed
        assert dump(saved_plan(again)) == text


def test_limits_of_types_that_kafka_does_not_rank_are_read_back_and_omitted_when_empty():
    preview = sample()
    affected = preview.impact.affected[0]
    unranked = UnrankedLimit(entity=(("client-id-prefix", "etl-"), ("user", None)), value=5.0)
    unknown = replace(affected, after=replace(affected.after, unranked=(unranked,)))
    impact = replace(preview.impact, affected=(unknown, *preview.impact.affected[1:]))
    again = read(dump(saved_plan(replace(preview, impact=impact))))
    assert again.impact.affected[0].after.unranked == (unranked,)
    assert not again.impact.affected[0].after.is_known
    assert "unranked" not in dump(saved_plan(preview))


# ---- other texts -----------------------------------------------------------------------------


@given(st.integers(min_value=0))
def test_a_plan_truncated_at_any_place_is_refused(place):
    with pytest.raises(ConfigError, match=r"plan\.json: "):
        read(TEXT[: place % (len(TEXT) - 2)])


def test_a_printed_plan_is_not_a_saved_one():
    with pytest.raises(ConfigError, match="printed with --format json") as caught:
        read(dump(plan_document(sample())))
    assert caught.value.hint == "expected: the file of `plan --out`"


@pytest.mark.parametrize("twice", ['"line":1,"line":', '"impact": {"known": 1, '])
def test_a_repeated_name_is_refused(twice):
    name = twice.partition(":")[0]
    place = '"impact": {' if "impact" in twice else f"{name}:"
    with pytest.raises(ConfigError, match="is given twice"):
        read(TEXT.replace(place, twice, 1))


# ---- edits -----------------------------------------------------------------------------------


def edited(change) -> tuple[str, str]:
    """An edited plan as arbitrary JSON, and in the layout of the writer."""
    document = json.loads(dump(saved_plan(torn())))
    change(document)
    return json.dumps(document), dump(document)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["changes"][0].update(after=7), "edited"),
        (lambda d: d["changes"][0].update(entity=[["user", "mallory"]]), "edited"),
        (lambda d: d.update(clusterId="other"), "edited"),
        (lambda d: d["changes"].pop(), "edited"),
        (lambda d: d.update(digest="sha256:0"), "its changes and its digest do not match"),
        (lambda d: d.update(created=d["created"] + 60), "its time and its digests do not match"),
        (lambda d: d.update(documentDigest="sha256:0"), "its time and its digests do not match"),
        (
            lambda d: d["changes"][0].update(after=d["changes"][0]["before"]),
            r"changes\[0\]: after should be another value than before",
        ),
        (
            lambda d: d["changes"][0].update(actions=["remove"]),
            r"changes\[0\] should be an object without the unknown field 'actions'",
        ),
        (
            lambda d: d["changes"][0].update(key="x"),
            r"changes\[0\]\.key should be another word than 'x', which is unknown",
        ),
        (lambda d: d["changes"][0].update(extra=1), "unknown field 'extra'"),
        (
            lambda d: d["changes"][1].pop("cause"),
            r"changes\[1\] should be an object with the field 'cause'",
        ),
        (
            lambda d: d["changes"][1].update(entity=[["user", "a"], ["user", "b"]]),
            r"changes\[1\]: entity type 'user' is given twice",
        ),
        (
            lambda d: d.update(extra=1),
            "the document should be .* without the unknown field 'extra'",
        ),
        (lambda d: d.pop("reliedOn"), "the document should be an object with the field 'reliedOn'"),
        (lambda d: d["changes"][0]["owner"].update(since="now"), r"changes\[0\]\.owner\.since"),
        (
            lambda d: d.update(policy="Anything"),
            "policy should be another word than 'Anything', which is unknown",
        ),
        (lambda d: d["counts"].pop("owned"), "counts should be an object with the field 'owned'"),
        (lambda d: d["counts"].update(owned=1.5), "counts.owned should be int, not float"),
        (lambda d: d["counts"].update(owned=-1), r"counts\.owned should be int >= 0"),
        (lambda d: d["counts"].update(remove=0), "counts .* without the unknown field 'remove'"),
        (lambda d: d.update(applyable=True), "."),
        (lambda d: d.update(errored=False), "unknown field 'errored'"),
        (lambda d: d.update(unmanaged=[]), "unknown field 'unmanaged'"),
        (
            lambda d: d["findings"][0].update(reason="all is well"),
            r"findings\[0\] should be an object without the unknown field 'reason'",
        ),
        (lambda d: d["findings"][0].update(action="Hide"), r"findings\[0\]\.action"),
        (lambda d: d["findings"][1].update(entity=[]), r"findings\[1\]: .*entity"),
        (lambda d: d["violations"][0].update(guard="mood"), r"violations\[0\]\.guard"),
        (lambda d: d["violations"][0].update(allowWith="--please"), "unknown field 'allowWith'"),
        (
            lambda d: d["violations"][0].update(place="quotas/9.yaml:x"),
            r"violations\[0\]\.place should be str matching regex",
        ),
        (lambda d: d["violations"][0].update(entity=[["x", "y"]]), r"violations\[0\]: .*unknown"),
        (lambda d: d["conflicts"][0].update(note="hello"), "unknown field 'note'"),
        (lambda d: d["conflicts"][0]["claims"][1].pop("line"), r"claims\[1\]"),
        (lambda d: d["impact"]["affected"][0].update(direction="tightened"), r"affected\[0\]"),
        (lambda d: d["impact"]["affected"][0].update(factor=9.0), r"affected\[0\]"),
        (lambda d: d["impact"]["affected"][0].update(sharing="split"), r"affected\[0\]"),
        (lambda d: d["impact"]["affected"][0]["after"].update(level=8), r"affected\[0\]\.after"),
        (
            lambda d: d["impact"]["affected"][0]["after"].update(source=[["x", "y"]]),
            r"impact\.affected\[0\]: entity type 'x' is unknown",
        ),
        (lambda d: d["changes"][0].pop("effect"), "changes: each should have its effect"),
        (lambda d: d["changes"][0]["effect"].update(direction="up"), r"changes\[0\]\.effect\.dir"),
        (lambda d: d["changes"][1]["effect"].update(factor=9.0), r"changes\[1\]\.effect"),
        (lambda d: d.update(snapshotAt="yesterday"), "snapshotAt"),
        (lambda d: d.update(snapshotAt=1e12), "snapshotAt"),
        (lambda d: d["validation"]["refused"][0].update(entity=[]), r"validation\.refused\[0\]"),
        (lambda d: d["reliedOn"][0].update(live=None), r"reliedOn\[0\]\.live"),
        (lambda d: d["reliedOn"][0].update(entity=[]), r"reliedOn\[0\]: "),
        (lambda d: d["origin"].update(why="so"), "origin .* unknown field 'why'"),
    ],
)
def test_an_edit_is_refused_with_its_place(change, words):
    for text in edited(change):
        with pytest.raises(ConfigError, match=rf"plan\.json: .*{words}"):
            read(text)


def test_edits_of_facts_that_no_digest_covers_are_shown_as_edited():
    """A digest covers the effect; the counts, texts and clients that are shown follow from the rows."""
    text, _ = edited(lambda document: document["findings"].clear())
    again = read(text)
    assert again.plan.findings == ()
    assert all(not plan_document(again)[name] for name in ("unmanaged", "newOrphans", "drift"))


def test_an_entity_that_cannot_be_is_named_with_its_row():
    file = saved_plan(sample())
    row = replace(file.changes[1], entity=())
    with pytest.raises(ConfigError, match=r"plan\.json: changes\[1\]: "):
        read(dump(replace(file, changes=[file.changes[0], row])))


ODD = (
    None,
    True,
    -1,
    10**400,
    1e308,
    "",
    "x",
    "a:b",
    "NaN",
    "\ud800",
    [],
    {},
    [[]],
    [["user", "x"]],
)


def test_any_value_at_any_place_is_read_and_shown_or_refused():
    """Untrusted input: no value in any place causes an internal error."""
    document = json.loads(dump(saved_plan(torn())))
    refused = readable_count = 0
    for number, (*way, last) in enumerate(first_of_each_array(document)):
        for odd in ODD[number % 6 :: 6]:
            container = at_place(document, way)
            original, container[last] = container[last], odd
            text = json.dumps(document)
            container[last] = original
            try:
                preview = read(text)
            except (ConfigError, StalePlan):
                refused += 1
                continue
            readable_count += 1
            plan_markdown(preview).encode()
            plan_findings(preview)
            plan_document(preview)
            assert saved_plan(preview) == msgspec.convert(json.loads(text), PlanFile)
    assert refused > 200
    assert readable_count > 10


def first_of_each_array(document):
    return [way for way in places(document) if not any(type(step) is int and step for step in way)]
