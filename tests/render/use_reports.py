"""Reports of use for tests: one with all parts, one with hostile names, and the files of the page."""

import math
from dataclasses import replace

from reconciler.app.html_page import page_files
from reconciler.render.use.report_page import use_page
from reconciler.usage.capacity import BudgetBasis
from reconciler.usage.impact.bucket_mapping import Identifiability
from reconciler.usage.impact.result_rows import (
    EvidenceNote,
    ImpactRow,
    RecommendationRow,
    Simulation,
    TierBreach,
)
from reconciler.usage.impact.verdict import ImpactVerdict, ToleranceBreach
from reconciler.usage.recommendation.limit_sizes import Advice, SizingRule
from reconciler.usage.reports.client import ClientLimitRow, ClientReport, ThrottledRow
from reconciler.usage.reports.usage import (
    CapacityRow,
    NoisyRow,
    TrafficDirection,
    UsageCurve,
    UsageReport,
    UsageRow,
    UsageState,
)
from reconciler.usage.samples import DAY_MS, QuotaType, ThrottleModel
from reconciler.usage.tags import Bucket, bucket_of
from reconciler.usage.throttle_models import FigureBound

MIB = 2**20
FROM = 1_795_000_000_000 // DAY_MS * DAY_MS
TO = FROM + 14 * DAY_MS
HOUR = 3_600_000
EVIL = '</script><img src=x onerror=alert(1)>|`@team`\n::error::"\u202e'

EVIDENCE = EvidenceNote(
    cluster_id="prod-id",
    source="s3://evidence",
    from_ms=FROM,
    to_ms=TO,
    made_ms=TO,
    step_ms=30_000,
    coverage_ppm=360_000,
    snapshot_id="s-1",
    counts={"gap": 2},
)

IMPACT = ImpactRow(
    cluster_id="prod-id",
    quota_type=QuotaType.PRODUCE,
    bucket=bucket_of("etl", "loader"),
    any_name=False,
    broker_id="1",
    before_units=20 * MIB,
    after_units=5 * MIB,
    source_entity='[["user","etl"],["client-id","loader"]]',
    answer=Identifiability.EXACT,
    verdict=ImpactVerdict.WORSE,
    bound=FigureBound.AT_LEAST,
    model=ThrottleModel.BACKLOG,
    before_throttled_ms=14 * 60_000,
    before_max_delay_ms=5_000,
    observed_throttled_ms=13 * 60_000,
    after_throttled_ms=14 * 30 * 60_000,
    after_max_delay_ms=300_000,
    after_over_timeout_ms=14 * 60_000,
    delayed_units=10**9,
    unfinished=0,
    covered_ms=14 * DAY_MS,
    censored_ms=60_000,
    why="",
)

UNKNOWN = replace(
    IMPACT,
    bucket=bucket_of("", "app"),
    verdict=ImpactVerdict.NOT_IDENTIFIABLE,
    answer=Identifiability.NOT_IDENTIFIABLE,
    after_throttled_ms=None,
    after_max_delay_ms=None,
    after_over_timeout_ms=None,
    delayed_units=None,
    unfinished=None,
    why="the users behind the client ids are not recorded",
)

SIMULATION = Simulation(
    evidence=(EVIDENCE,),
    rows=(IMPACT, UNKNOWN),
    left_out=3,
    verdicts={ImpactVerdict.WORSE: 3, ImpactVerdict.SAME: 1, ImpactVerdict.NOT_IDENTIFIABLE: 1},
    breaches=(
        TierBreach(
            row=IMPACT,
            tier="gold",
            breach=ToleranceBreach(what="worst delay", found_ms=300_000, allowed_ms=60_000),
        ),
    ),
)

RECOMMENDATION = RecommendationRow(
    cluster_id="prod-id",
    quota_type=QuotaType.PRODUCE,
    bucket=bucket_of("etl", "loader"),
    source_entity=IMPACT.source_entity,
    tier="silver",
    advice=Advice.CHANGE,
    current_units=20 * MIB,
    target_units=12 * MIB,
    needed_units=10 * MIB,
    lower_units=9 * MIB,
    upper_units=11 * MIB,
    worst_week_units=None,
    peak_units=30 * MIB,
    train_share_ppm=4_000,
    train_max_delay_ms=60_000,
    test_share_ppm=5_000,
    test_max_delay_ms=90_000,
    confidence_ppm=900_000,
    censored_ppm=10,
    rules=(SizingRule.CUT,),
    evidence_ms=14 * DAY_MS,
    samples=40_000,
    brokers=6,
)

USAGE = UsageRow(
    cluster_id="prod-id",
    quota_type=QuotaType.PRODUCE,
    bucket=bucket_of("etl", "loader"),
    broker_id="1",
    limit_units=20 * MIB,
    source_entity=IMPACT.source_entity,
    covered_ms=14 * DAY_MS,
    p50_units=MIB,
    p95_units=5 * MIB,
    p99_units=18 * MIB,
    max_rate_units=30 * MIB,
    throttled_ms=60_000,
    censored_ms=0,
    state=UsageState.THROTTLED,
)

CAPACITY = CapacityRow(
    cluster_id="prod-id",
    broker_id="1",
    direction=TrafficDirection.INGRESS,
    budget_units=100 * MIB,
    committed_ppm=2_400_000,
    coincident_ppm=650_000,
    overload_ms=0,
    unattributed_ppm=12_000,
    covered_ms=14 * DAY_MS,
    basis=BudgetBasis.MEASURED,
)

NOISY = NoisyRow(
    cluster_id="prod-id",
    broker_id="1",
    bucket_ms=FROM,
    quota_type=QuotaType.PRODUCE,
    bucket=bucket_of("etl", "loader"),
    budget_units=100 * MIB,
    rate_units=80 * MIB,
    fair_units=30 * MIB,
    excess_units=50 * MIB,
)


def curve(bucket: Bucket = IMPACT.bucket) -> UsageCurve:
    """A fortnight of hours with a daily shape, and a gap."""
    points = []
    for hour in range(14 * 24):
        if 100 <= hour < 110:
            continue
        mean = int((6 + 4 * math.sin(hour / 24 * 2 * math.pi)) * MIB)
        points.append((FROM + hour * HOUR, mean, mean + mean // 2 + (hour % 7) * MIB))
    return UsageCurve(
        cluster_id="prod-id",
        quota_type=QuotaType.PRODUCE,
        bucket=bucket,
        broker_id="1",
        points=tuple(points),
        span_ms=HOUR,
        before_units=20 * MIB,
        after_units=5 * MIB,
        throttled=(FROM + 5 * HOUR,),
    )


def whole_report() -> UsageReport:
    return UsageReport(
        evidence=(EVIDENCE,),
        simulation=SIMULATION,
        recommendations=(RECOMMENDATION,),
        usage=(USAGE,),
        capacity=(CAPACITY,),
        noisy=(NOISY,),
        curves=(curve(),),
        left_out={"usage_row": 12},
        notes=("one day is missing",),
    )


def hostile_report() -> UsageReport:
    bucket = bucket_of(EVIL, EVIL)
    row = replace(IMPACT, bucket=bucket, cluster_id=EVIL, broker_id=EVIL, why=EVIL)
    return replace(
        whole_report(),
        evidence=(replace(EVIDENCE, cluster_id=EVIL, partial=(EVIL,), counts={EVIL: 1}),),
        simulation=replace(SIMULATION, rows=(row,), left_out=0, verdicts={ImpactVerdict.WORSE: 1}),
        usage=(replace(USAGE, bucket=bucket, cluster_id=EVIL, broker_id=EVIL),),
        curves=(curve(bucket),),
        notes=(EVIL,),
    )


def client_page() -> ClientReport:
    """A client that was throttled for two hours, and an hour around the time in question."""
    throttled = ThrottledRow(
        quota_type=QuotaType.PRODUCE,
        bucket=bucket_of("etl", "loader"),
        broker_id="1",
        begin_ms=FROM + 5 * HOUR,
        end_ms=FROM + 7 * HOUR,
        limit_units=20 * MIB,
        source_entity=IMPACT.source_entity,
        level=1,
        delay_ms=1_200,
        rate_units=30 * MIB,
        least_units=23 * MIB,
    )
    limits = ClientLimitRow(
        quota_type=QuotaType.PRODUCE,
        bucket=bucket_of("etl", "loader"),
        is_known=True,
        limit_units=20 * MIB,
        source_entity=IMPACT.source_entity,
        level=1,
        brokers=1,
        peak_units=30 * MIB,
        covered_ms=14 * DAY_MS,
        throttled_ms=2 * HOUR,
        least_units=23 * MIB,
        target_units=32 * MIB,
    )
    short = replace(curve(), points=curve().points[:3], span_ms=HOUR, after_units=32 * MIB)
    return ClientReport(
        user="etl",
        client_id="loader",
        ip="",
        evidence=EvidenceNote(
            cluster_id="prod-id", from_ms=FROM, to_ms=TO, step_ms=30_000, coverage_ppm=990_000
        ),
        at_ms=FROM + 6 * HOUR,
        silent_brokers=(),
        throttled=(throttled,),
        limits=(limits,),
        curves=(replace(curve(), after_units=32 * MIB), short),
        patches=("---\napiVersion: kafka-quotas.io/v1alpha1\nkind: ClientQuota\n",),
    )


def page(report: UsageReport | ClientReport) -> str:
    return use_page(report, page_files(), made_ms=TO, tool_version="1.2.3")
