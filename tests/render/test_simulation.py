"""The impact on recorded use: its text, its part of a comment, its section of a plan document, read back strictly."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from reconciler.codecs.plan import read_plan, read_simulation, saved_plan
from reconciler.codecs.reader import DocumentReader
from reconciler.codecs.simulation import read_whatif, whatif_document
from reconciler.errors import ConfigError
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.planner.plan import Plan
from reconciler.render.json_values import dump
from reconciler.render.markdown.plan import plan_markdown
from reconciler.render.markdown.recorded_use import recorded_markdown
from reconciler.render.source_findings import plan_findings
from reconciler.render.terminal import plan_text
from reconciler.render.use.simulation_text import recorded_of
from reconciler.usage.demand_bounds import FigureBound
from reconciler.usage.impact.bucket_mapping import Identifiability
from reconciler.usage.impact.query import ImpactRequest
from reconciler.usage.impact.result_rows import EvidenceNote, ImpactRow, Simulation, TierBreach
from reconciler.usage.impact.tier_policy import USUAL, WhatIfPolicy
from reconciler.usage.impact.verdict import ImpactVerdict, Tolerance, ToleranceBreach
from reconciler.usage.impact.what_if import row_of, summarize
from reconciler.usage.samples import DAY_MS, Censored, QuotaType, ThrottleModel
from reconciler.usage.tags import bucket_of
from tests.render.previews import EVIL as EVIL_USER
from tests.render.previews import sample
from tests.usage.recorded import OldBucket, impact, judged
from tests.usage.reference import Sample
from tests.usage.whatif_cases import CADENCE, case

EVIL = str(EVIL_USER[0])
MINUTE = 60_000
NOW = 1_763_730_000.0
END = 1_763_719_200_000
CLUSTER = sample().plan.cluster_id
EVIDENCE = EvidenceNote(
    cluster_id=CLUSTER,
    source="s3://evidence/lkc-1/LATEST.json",
    from_ms=END - 14 * DAY_MS,
    to_ms=END,
    made_ms=END + 5,
    step_ms=30_000,
    coverage_ppm=990_000,
    counts={"gaps": 3},
)


def row(user="alice", **more) -> ImpactRow:
    new_row = ImpactRow(
        cluster_id=CLUSTER,
        quota_type=QuotaType.PRODUCE,
        bucket=bucket_of(user),
        any_name=False,
        broker_id="1",
        before_units=20 * 2**20,
        after_units=10 * 2**20,
        source_entity=json.dumps([["user", user]], separators=(",", ":")),
        answer=Identifiability.EXACT,
        verdict=ImpactVerdict.WORSE,
        bound=FigureBound.EXACT,
        model=ThrottleModel.BACKLOG,
        before_throttled_ms=0,
        before_max_delay_ms=0,
        observed_throttled_ms=0,
        after_throttled_ms=140 * MINUTE,
        after_max_delay_ms=150_000,
        after_over_timeout_ms=28 * MINUTE,
        delayed_units=1,
        unfinished=0,
        covered_ms=14 * DAY_MS,
        censored_ms=0,
        why="",
    )
    return replace(new_row, **more)


SAME = {
    "verdict": ImpactVerdict.SAME,
    "after_throttled_ms": 0,
    "after_max_delay_ms": 0,
    "after_over_timeout_ms": 0,
}
HELD_BACK = {
    "bound": FigureBound.AT_LEAST,
    "observed_throttled_ms": 14 * 20 * 3_600_000,
    "censored_ms": 14 * 20 * 3_600_000,
}
BLIND = {
    "after_throttled_ms": None,
    "after_max_delay_ms": None,
    "after_over_timeout_ms": None,
    "covered_ms": 0,
}


def simulation(*rows, **more) -> Simulation:
    return Simulation(evidence=(EVIDENCE,), rows=rows, **more)


def description_of(impact_row, **more) -> str:
    (recorded_row,) = recorded_of(simulation(replace(impact_row, **more)), at=NOW).rows
    return recorded_row.description


@pytest.mark.parametrize(
    ("more", "words"),
    [
        pytest.param(
            {},
            "throttled 10 min a day (now never), worst delay 2 min 30 s;"
            " 2 min a day above 120 s, where producers lose records",
            id="worse",
        ),
        pytest.param(
            {"bound": FigureBound.AT_LEAST, "after_over_timeout_ms": 0},
            "throttled at least 10 min a day (now never), worst delay at least 2 min 30 s",
            id="lower bound",
        ),
        pytest.param(SAME, "never throttled, as now", id="same"),
        pytest.param(
            {**SAME, **HELD_BACK},
            "recorded use was held back: throttled at least as much as now; seen throttled 20 h a day, held back in 83 % of the time",
            id="throttled, and the limit gets tighter",
        ),
        pytest.param(
            {**SAME, "observed_throttled_ms": 14 * 10_000},
            "recorded use was held back: throttled at least as much as now; seen throttled 10 s a day",
            id="the observed minimum is shown",
        ),
        pytest.param(
            {**SAME, **HELD_BACK, "after_units": 20 * 2**20},
            "throttled as much as now; seen throttled 20 h a day, held back in 83 % of the time",
            id="throttled, and the limit stays",
        ),
        pytest.param(
            {**SAME, **HELD_BACK, "after_units": 30 * 2**20, "censored_ms": 0},
            "not throttled in what was recorded; seen throttled 20 h a day",
            id="observed throttling, and the limit gets looser",
        ),
        pytest.param(
            {**SAME, **HELD_BACK, "bound": FigureBound.EXACT, "after_units": None},
            "never throttled; seen throttled 20 h a day, held back in 83 % of the time",
            id="throttled, and the limit is removed",
        ),
        pytest.param(
            {**SAME, "bound": FigureBound.AT_LEAST},
            "not throttled in what was recorded, which may be less than what was wanted",
            id="unknown whether it was throttled",
        ),
        pytest.param(
            {"bound": FigureBound.AT_LEAST},
            "throttled at least 10 min a day (now never), worst delay at least 2 min 30 s;"
            " at least 2 min a day above 120 s, where producers lose records",
            id="every figure of a lower bound is one",
        ),
        pytest.param(
            {"quota_type": QuotaType.FETCH},
            "throttled 10 min a day (now never), worst delay 2 min 30 s; 2 min a day above 120 s",
            id="consumers lose no record",
        ),
        pytest.param(
            {"quota_type": QuotaType.CONTROLLER_MUTATION, "model": ThrottleModel.TOKENS},
            "throttled 10 min a day (now never), worst delay 2 min 30 s; 2 min a day above 120 s",
            id="topic creators lose no record",
        ),
        pytest.param(
            {
                "verdict": ImpactVerdict.BETTER,
                "before_throttled_ms": 280 * MINUTE,
                "after_throttled_ms": 0,
                "after_max_delay_ms": 0,
                "after_over_timeout_ms": 0,
            },
            "throttled 0 s a day (now 20 min a day)",
            id="better",
        ),
        pytest.param(
            {
                "verdict": ImpactVerdict.BETTER,
                "after_throttled_ms": None,
                "after_max_delay_ms": None,
                "censored_ms": 7 * DAY_MS,
                "observed_throttled_ms": 14 * 3_600_000,
            },
            "less throttled than now; by how much cannot be known from use that was held back",
            id="better without a number",
        ),
        pytest.param(
            {"verdict": ImpactVerdict.SAFE_BY_BOUND, "after_throttled_ms": 0},
            "not throttled, even if all that was recorded were its own",
            id="bound",
        ),
        pytest.param(
            {
                **BLIND,
                "verdict": ImpactVerdict.NOT_IDENTIFIABLE,
                "why": "what was recorded holds other clients too",
            },
            "cannot be known: what was recorded holds other clients too",
            id="not identifiable",
        ),
        pytest.param(
            {**BLIND, "verdict": ImpactVerdict.NO_DATA, "why": "no such client was seen"},
            "no data: no such client was seen",
            id="no data",
        ),
        pytest.param(
            {
                "quota_type": QuotaType.IP,
                "model": ThrottleModel.REJECTED,
                "after_max_delay_ms": None,
                "after_over_timeout_ms": None,
            },
            "connections refused 10 min a day (now never)",
            id="connections",
        ),
        pytest.param(
            {
                "after_over_timeout_ms": 0,
                "observed_throttled_ms": 14 * 3_600_000,
                "censored_ms": 7 * DAY_MS,
            },
            "throttled 10 min a day (now never), worst delay 2 min 30 s; seen throttled 1 h a day, held back in 50 % of the time",
            id="seen",
        ),
    ],
)
def test_one_sentence_summarises_the_impact(more, words):
    assert description_of(row(), **more) == words


def test_the_length_of_a_short_recording_precedes_its_figures():
    five = {"covered_ms": 300_000, "after_throttled_ms": 270_000, "after_over_timeout_ms": 0}
    recorded = recorded_of(simulation(row(**five)), at=NOW)
    assert recorded.headline == "from 5 min of recorded use: 1 client of 1 will be worse off"
    assert "throttled 4 min 30 s of the 5 min recorded (now never)" in recorded.rows[0].description
    calm = row(**five | {"verdict": ImpactVerdict.SAME, "after_throttled_ms": 0})
    headline = recorded_of(simulation(calm), at=NOW).headline
    assert headline == "from 5 min of recorded use: none of those affected will be worse off"


def test_a_forecast_that_depends_on_the_fetch_size_is_an_interval():
    more = {
        "quota_type": QuotaType.FETCH,
        "bound": FigureBound.BETWEEN,
        "after_over_timeout_ms": 0,
        "worst_throttled_ms": 420 * MINUTE,
        "worst_max_delay_ms": 600_000,
    }
    assert description_of(row(), **more) == (
        "throttled between 10 min and 30 min a day (now never in the best case), worst delay between 2 min 30 s and 10 min"
    )
    never = more | {"after_throttled_ms": 0, "after_max_delay_ms": 0}
    assert description_of(row(), **never) == (
        "throttled between 0 s and 30 min a day (now never in the best case), worst delay between 0 s and 10 min"
    )
    short = more | {
        "covered_ms": 7_200_000,
        "after_throttled_ms": 60_000,
        "worst_throttled_ms": 90_000,
    }
    assert "throttled between 1 min and 1 min 30 s of the 2 h recorded" in description_of(
        row(), **short
    )
    late = description_of(
        row(), **more | {"before_units": None, "after_over_timeout_ms": 70 * MINUTE}
    )
    assert "(now never)" in late
    assert late.endswith("; at least 5 min a day above 120 s")
    same = more | {"worst_throttled_ms": 140 * MINUTE, "worst_max_delay_ms": 150_000}
    assert (
        description_of(row(), **same)
        == "throttled 10 min a day (now never in the best case), worst delay 2 min 30 s"
    )


def test_the_headline_counts_clients_and_not_brokers():
    rows = [row(broker_id=number) for number in "123"]
    blind = row("bob", broker_id="", verdict=ImpactVerdict.NO_DATA, why="unseen", **BLIND)
    use = recorded_of(simulation(*rows, blind), at=NOW)
    assert use.headline == (
        "1 client of 2 will be worse off, 1 client will lose records (delays above 120 s), 1 of 2 cannot be judged"
    )
    assert [item.broker for item in use.rows] == ["broker 1; throttled on 3 of 3", ""]
    assert use.notes[0].startswith("No data: ")
    calm = row(verdict=ImpactVerdict.SAME, after_throttled_ms=0, after_over_timeout_ms=0)
    assert (
        recorded_of(simulation(calm), at=NOW).headline == "none of those affected will be worse off"
    )


def test_for_a_client_that_was_throttled_all_day_the_headline_does_not_claim_no_change():
    # A client throttled all day under its limit records 0.98 of it; replayed under 0.99 of it, it looks unthrottled.
    limit = 1_000
    samples = [
        Sample(n * 30_000, 30_000, 980, 500, Censored.YES) for n in range(1, DAY_MS // 30_000)
    ]
    simulated_impact = impact(
        QuotaType.PRODUCE,
        Identifiability.EXACT,
        [OldBucket(samples=samples, limit=limit)],
        990,
        max_gap_ms=150_000,
    )
    request = ImpactRequest(
        quota_type=QuotaType.PRODUCE,
        bucket=bucket_of("alice"),
        broker_id="1",
        before_units=limit,
        after_units=990,
        source_entity="",
        answer=Identifiability.EXACT,
        parts=(),
        reason="",
        any_name=False,
    )
    impact_row = row_of(CLUSTER, request, simulated_impact)
    assert (impact_row.verdict, impact_row.bound, impact_row.after_throttled_ms) == (
        ImpactVerdict.SAME,
        FigureBound.AT_LEAST,
        0,
    )
    use = recorded_of(simulation(impact_row), at=NOW)
    assert use.headline == "1 of 1 cannot be judged"
    assert use.rows[0].mark == "?"
    assert "never" not in use.rows[0].description
    assert use.notes[0].startswith("Held back: ")


def test_only_producers_lose_records():
    rows = [
        row("a"),
        row("b", quota_type=QuotaType.FETCH),
        row("c", quota_type=QuotaType.CONTROLLER_MUTATION, model=ThrottleModel.TOKENS),
    ]
    assert recorded_of(simulation(*rows), at=NOW).headline == (
        "3 clients of 3 will be worse off, 1 client will lose records (delays above 120 s)"
    )


def test_the_evidence_shows_its_window_age_and_coverage():
    (sentence,) = recorded_of(simulation(), at=NOW).evidence
    assert sentence == (
        f"evidence of cluster {CLUSTER}: 14 d until 2025-11-21 10:00 UTC (3 h old); read every 30 s;"
        " brokers answered in 99 % of it; counted: gaps 3; s3://evidence/lkc-1/LATEST.json"
    )
    stale = Simulation(evidence=(replace(EVIDENCE, stale="it is old"),), rows=(row(),))
    use = recorded_of(stale, at=NOW)
    assert use.evidence[0].startswith("does not count: it is old")
    assert use.headline.startswith("no usable evidence")
    absent = Simulation(
        evidence=(EvidenceNote(cluster_id="c", stale="none was published"),), rows=()
    )
    assert recorded_of(absent, at=NOW).evidence == ("no evidence of cluster c: none was published",)


# ---- where it is shown -------------------------------------------------------------------------

BREACH = TierBreach(
    row=row(),
    tier="gold",
    breach=ToleranceBreach(what="worst delay", found_ms=150_000, allowed_ms=60_000),
)


def test_a_breach_is_at_the_line_of_its_rule():
    preview = sample()
    change = next(
        candidate
        for candidate in preview.plan.changes
        if candidate.claim is not None and not candidate.removes
    )
    breached = replace(BREACH, row=row(source_entity=_json(change.entity)))
    recorded = recorded_of(simulation(row(), breaches=(breached,)), at=NOW)
    refusal = structs.replace(recorded.refusals[0], key=change.key)
    results = plan_findings(preview, structs.replace(recorded, refusals=(refusal,)))
    (problem,) = [each for each in results if each.rule == "evidence"]
    assert f"{problem.path}:{problem.line}" == change.claim.place(change.key)
    assert (
        problem.message
        == "user=alice (produce, tier gold): worst delay 2 min 30 s, allowed 1 min on broker 1"
    )


def test_a_refusal_by_a_small_difference_shows_the_difference():
    narrow = replace(BREACH, breach=replace(BREACH.breach, found_ms=60_900))
    (refusal,) = recorded_of(simulation(row(), breaches=(narrow,)), at=NOW).refusals
    assert "worst delay 1 min 900 ms, allowed 1 min on broker" in refusal.message


def _json(subject) -> str:
    kinds = ("user", "client-id", "ip")
    return json.dumps(
        [[kind, slot] for kind, slot in zip(kinds, subject, strict=True) if slot is not False],
        separators=(",", ":"),
    )


def test_a_breach_without_a_limit_has_no_place():
    recorded = recorded_of(
        simulation(breaches=(replace(BREACH, row=row(source_entity="")),)), at=NOW
    )
    assert recorded.refusals[0].entity is None
    assert recorded.refusals[0].key is Key.PRODUCER_BYTE_RATE
    (problem,) = [each for each in plan_findings(sample(), recorded) if each.rule == "evidence"]
    assert problem.path == ""


def test_text_and_markdown_contain_the_section_and_nothing_else_changes():
    recorded = recorded_of(simulation(row(), breaches=(BREACH,)), at=NOW)
    for show in (plan_text, plan_markdown):
        with_, without = show(sample(), recorded=recorded), show(sample())
        assert "Effect by recorded use" in with_
        assert "Refused by the recorded-use policy (1)" in with_
        assert "recorded use" not in without
        lines = iter(with_.splitlines())
        assert all(line in lines for line in without.splitlines())


def test_names_cannot_forge_markup():
    hostile = row(EVIL, source_entity=_json(entity(user=EVIL)))
    breach = replace(BREACH, row=hostile, tier=EVIL)
    note = f"note {EVIL}"
    hostile_simulation = simulation(hostile, breaches=(breach,), notes=(note,))
    recorded = recorded_of(
        replace(hostile_simulation, evidence=(replace(EVIDENCE, stale=EVIL),)), at=NOW
    )
    plain = recorded_of(simulation(row(), breaches=(BREACH,), notes=("note x",)), at=NOW)
    text = plan_text(sample(), recorded=recorded)
    assert len(text.splitlines()) == len(
        plan_text(sample(), recorded=structs.replace(plain, evidence=("e",))).splitlines()
    )
    assert "\x1b" not in text
    new_text = "\n".join(recorded_markdown(recorded, room=20_000))
    assert len(new_text.splitlines()) == len(
        "\n".join(recorded_markdown(plain, room=20_000)).splitlines()
    )
    for forged in ("<script", "<img", "@all", "\x1b"):
        assert forged not in new_text.replace("<sub>", "")


@given(st.integers(0, 400), st.integers(2_000, 16_384))
def test_a_comment_is_bounded_for_any_simulation(size, room):
    rows = [row(f"client-{n}" * 20) for n in range(size)]
    breaches = tuple(replace(BREACH, row=impact_row) for impact_row in rows)
    new_simulation = simulation(*rows, breaches=breaches, notes=("a sentence",) * size)
    text = "\n".join(recorded_markdown(recorded_of(new_simulation, at=NOW), room=room))
    assert len(text) <= room
    assert text.count("<details>") == text.count("</details>")


# ---- the document ------------------------------------------------------------------------------

STRICT = WhatIfPolicy(
    usual=replace(USUAL[1], tolerance=Tolerance(new_throttled_ms_per_day=0, max_delay_ms=0))
)


def read(document, cluster_id=CLUSTER) -> Simulation:
    return read_whatif(
        DocumentReader(json.loads(dump({"simulation": document}))).fields("simulation")[
            "simulation"
        ],
        cluster_id,
    )


@given(st.integers(0, 100_000))
def test_a_written_simulation_is_read_back(number):
    sample_case = case(number)
    rows = judged(sample_case.question, sample_case.series, CADENCE)
    note = replace(EVIDENCE, cluster_id=sample_case.cluster_id)
    summary = summarize(rows, [note], STRICT, questions=[sample_case.question], max_rows=4)
    assert read(whatif_document(summary), sample_case.cluster_id) == summary


def written(**more) -> dict:
    new_simulation = simulation(row(), breaches=(BREACH,))
    return {**json.loads(dump({"x": whatif_document(new_simulation)}))["x"], **more}


def edited(section, **more) -> dict:
    document = written()
    document[section][0].update(more)
    return document


@pytest.mark.parametrize(
    ("document", "place"),
    [
        (written(format=2), "simulation.format"),
        (written(enough=False), "simulation.enough"),
        (written(leftOut=-1), "simulation.leftOut"),
        (written(leftBlind=1), "simulation.leftBlind"),
        (written(more=1), "more"),
        (written(verdicts={"worse": 2}), "simulation.verdicts"),
        (written(verdicts={"worse": 1, "fine": 0}), "simulation.verdicts"),
        (written(verdicts={}), "simulation.verdicts"),
        (edited("rows", verdict="fine"), "simulation.rows[0].verdict"),
        (edited("rows", after_throttled_ms=None), "simulation.rows[0].verdict"),
        (edited("rows", bound="between"), "simulation.rows[0].bound"),
        (edited("rows", worst_throttled_ms=1), "simulation.rows[0].bound"),
        (edited("rows", model="tokens"), "simulation.rows[0].model"),
        (edited("rows", group_kind="pair"), "simulation.rows[0].group_kind"),
        (edited("rows", source_entity='[["user", "a"]]'), "simulation.rows[0].source_entity"),
        (edited("rows", source_entity="{}"), "simulation.rows[0].source_entity"),
        (edited("rows", why="pay me"), "simulation.rows[0].why"),
        (edited("rows", covered_ms=-1), "simulation.rows[0].covered_ms"),
        (edited("rows", cluster_id="other"), "simulation should be about the cluster"),
        (edited("breaches", found_ms=60_000), "simulation.breaches[0].found_ms"),
        (edited("breaches", what="taste"), "simulation.breaches[0].what"),
        (edited("evidence", from_ms=END + 1), "simulation.evidence[0].from_ms"),
        (edited("evidence", to_ms=10**18), "simulation.evidence[0].to_ms"),
    ],
)
def test_a_contradictory_simulation_is_refused_with_its_place(document, place):
    with pytest.raises(ConfigError) as caught:
        read(document)
    assert place in str(caught.value)


def test_a_plan_with_a_simulation_has_the_same_digest():
    new_simulation = simulation(row(), breaches=(BREACH,))
    text = dump(saved_plan(sample(), whatif_document(new_simulation)))
    assert read_simulation(text, location="plan.json") == new_simulation
    plain = dump(saved_plan(sample()))
    assert read_simulation(plain, location="plan.json") is None
    assert read_plan(text, location="plan.json") == read_plan(plain, location="plan.json")
    assert isinstance(read_plan(text, location="plan.json").plan, Plan)
    broken = text.replace('"leftOut": 0', '"leftOut": -1')
    assert broken != text
    for reader in (read_plan,):
        with pytest.raises(ConfigError, match="leftOut"):
            reader(broken, location="plan.json")
