"""The impact on recorded use: its text, its part of a comment, its section of a plan document, read back strictly."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from reconciler.codecs.plan import read_plan, read_simulation, saved_plan
from reconciler.codecs.simulation import read_whatif, whatif_document
from reconciler.errors import ConfigError
from reconciler.quota.entity import entity
from reconciler.quota.planner.plan import Plan
from reconciler.render.json_values import dump
from reconciler.render.markdown.recorded_use import recorded_markdown
from reconciler.render.source_findings import plan_findings
from reconciler.render.terminal import plan_text
from reconciler.render.use.simulation_text import recorded_of
from reconciler.usage.impact.bucket_mapping import Identifiability
from reconciler.usage.impact.query import ImpactRequest
from reconciler.usage.impact.result_rows import EvidenceNote, ImpactRow, Simulation, TierBreach
from reconciler.usage.impact.tier_policy import USUAL, WhatIfPolicy
from reconciler.usage.impact.verdict import ImpactVerdict, Tolerance, ToleranceBreach
from reconciler.usage.impact.what_if import row_of, summarize
from reconciler.usage.samples import DAY_MS, Censored, QuotaType, ThrottleModel
from reconciler.usage.tags import bucket_of
from reconciler.usage.throttle_models import FigureBound
from tests.render.previews import EVIL as EVIL_USER
from tests.render.previews import golden, sample
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


FETCH = {"quota_type": QuotaType.FETCH}
TOPICS = {"quota_type": QuotaType.CONTROLLER_MUTATION, "model": ThrottleModel.TOKENS}
HOUR_SEEN = {"observed_throttled_ms": 14 * 3_600_000, "censored_ms": 7 * DAY_MS}
UNKNOWN = {"after_throttled_ms": None, "after_max_delay_ms": None}
BETWEEN = FETCH | {
    "bound": FigureBound.BETWEEN,
    "after_over_timeout_ms": 0,
    "worst_throttled_ms": 420 * MINUTE,
    "worst_max_delay_ms": 600_000,
}
SHORT = {"covered_ms": 300_000, "after_throttled_ms": 270_000, "after_over_timeout_ms": 0}
ROWS = {
    "worse": {},
    "lower bound": {"bound": FigureBound.AT_LEAST, "after_over_timeout_ms": 0},
    "every figure of a lower bound": {"bound": FigureBound.AT_LEAST},
    "same": SAME,
    "held back, tighter": SAME | HELD_BACK,
    "the observed minimum": SAME | {"observed_throttled_ms": 14 * 10_000},
    "held back, stays": SAME | HELD_BACK | {"after_units": 20 * 2**20},
    "seen, looser": SAME | HELD_BACK | {"after_units": 30 * 2**20, "censored_ms": 0},
    "held back, removed": SAME | HELD_BACK | {"bound": FigureBound.EXACT, "after_units": None},
    "unknown whether throttled": SAME | {"bound": FigureBound.AT_LEAST},
    "consumers lose no record": FETCH,
    "topic creators lose no record": TOPICS,
    "better": SAME | {"verdict": ImpactVerdict.BETTER, "before_throttled_ms": 280 * MINUTE},
    "better without a number": UNKNOWN | HOUR_SEEN | {"verdict": ImpactVerdict.BETTER},
    "by bound": {"verdict": ImpactVerdict.SAFE_BY_BOUND, "after_throttled_ms": 0},
    "not identifiable": BLIND
    | {"verdict": ImpactVerdict.NOT_IDENTIFIABLE, "why": "what was recorded holds others too"},
    "no data": BLIND | {"verdict": ImpactVerdict.NO_DATA, "why": "no such client was seen"},
    "connections": {
        "quota_type": QuotaType.IP,
        "model": ThrottleModel.REJECTED,
        "after_max_delay_ms": None,
        "after_over_timeout_ms": None,
    },
    "seen": HOUR_SEEN | {"after_over_timeout_ms": 0},
    "interval": BETWEEN,
    "interval from nothing": BETWEEN | {"after_throttled_ms": 0, "after_max_delay_ms": 0},
    "interval of a short recording": BETWEEN
    | {"covered_ms": 7_200_000, "after_throttled_ms": 60_000, "worst_throttled_ms": 90_000},
    "interval of records": BETWEEN | {"before_units": None, "after_over_timeout_ms": 70 * MINUTE},
    "interval of one": BETWEEN
    | {"worst_throttled_ms": 140 * MINUTE, "worst_max_delay_ms": 150_000},
    "short recording": SHORT,
}
STALE = replace(EVIDENCE, stale="it is old")
ABSENT = EvidenceNote(cluster_id="c", stale="none was published")
SIMULATIONS = {
    "brokers are no clients": simulation(
        *(row(broker_id=number) for number in "123"),
        row("bob", broker_id="", verdict=ImpactVerdict.NO_DATA, why="unseen", **BLIND),
    ),
    "calm": simulation(row(**SAME)),
    "short": simulation(row(**SHORT)),
    "short and calm": simulation(row(**SHORT | SAME)),
    "only producers lose records": simulation(row("a"), row("b", **FETCH), row("c", **TOPICS)),
    "stale": Simulation(evidence=(STALE,), rows=(row(),)),
    "absent": Simulation(evidence=(ABSENT,), rows=()),
}


def test_the_sentences_of_rows_and_the_headlines_of_simulations_equal_the_golden_file():
    lines = [
        f"{name}: {recorded_of(simulation(row(**more)), at=NOW).rows[0].description}"
        for name, more in ROWS.items()
    ]
    for name, each in SIMULATIONS.items():
        use = recorded_of(each, at=NOW)
        rows = [f"  {item.mark} {item.broker}" for item in use.rows]
        notes = [f"  {text}" for text in (*use.evidence, *use.notes)]
        lines += ["", f"{name}: {use.headline}", *rows, *notes]
    golden("simulation.txt", "\n".join(lines) + "\n")


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


def _json(subject) -> str:
    kinds = ("user", "client-id", "ip")
    return json.dumps(
        [[kind, slot] for kind, slot in zip(kinds, subject, strict=True) if slot is not False],
        separators=(",", ":"),
    )


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
    return read_whatif(json.loads(json.dumps(document)), cluster_id, location="plan.json")


@given(st.integers(0, 100_000))
def test_a_written_simulation_is_read_back(number):
    sample_case = case(number)
    rows = judged(sample_case.question, sample_case.series, CADENCE)
    note = replace(EVIDENCE, cluster_id=sample_case.cluster_id)
    summary = summarize(rows, [note], STRICT, questions=[sample_case.question], max_rows=4)
    assert read(whatif_document(summary), sample_case.cluster_id) == summary


def written(**more) -> dict:
    return whatif_document(simulation(row(), breaches=(BREACH,))) | more


def edited(section, **more) -> dict:
    document = json.loads(json.dumps(written()))
    document[section][0] |= more
    return document


PAIR = {"kind": "pair", "user": "alice", "client_id": "", "ip": ""}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (written(left_out=-1), "verdicts"),
        (written(left_blind=1), "verdicts"),
        (written(more=1), "unknown fields"),
        (edited("rows", more=1), "unknown fields"),
        (written(verdicts={"worse": 2}), "verdicts"),
        (written(verdicts={"worse": 1, "fine": 0}), "verdicts"),
        (edited("rows", verdict="fine"), r"rows\[0\].verdict"),
        (edited("rows", after_throttled_ms=None), "contradict"),
        (edited("rows", bound="between"), "contradict"),
        (edited("rows", worst_throttled_ms=1), "contradict"),
        (edited("rows", model="tokens"), "contradict"),
        (edited("rows", bucket=PAIR), "contradict"),
        (edited("rows", source_entity='[["user", "a"]]'), "contradict"),
        (edited("rows", source_entity="{}"), "contradict"),
        (edited("rows", covered_ms=-1), "contradict"),
        (edited("rows", cluster_id="other"), "about the cluster"),
        (edited("evidence", to_ms=10**18), "before the year 10000"),
    ],
)
def test_a_contradictory_simulation_is_refused(document, words):
    with pytest.raises(ConfigError, match=words):
        read(document)


def test_a_plan_with_a_simulation_has_the_same_digest():
    new_simulation = simulation(row(), breaches=(BREACH,))
    text = dump(saved_plan(sample(), whatif_document(new_simulation)))
    assert read_simulation(text, location="plan.json") == new_simulation
    plain = dump(saved_plan(sample()))
    assert read_simulation(plain, location="plan.json") is None
    assert read_plan(text, location="plan.json") == read_plan(plain, location="plan.json")
    assert isinstance(read_plan(text, location="plan.json").plan, Plan)
    broken = text.replace('"left_out": 0', '"left_out": -1')
    assert broken != text
    with pytest.raises(ConfigError, match="verdicts"):
        read_plan(broken, location="plan.json")
