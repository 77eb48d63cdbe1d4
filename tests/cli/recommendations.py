"""A project with ClientQuotas and rows of recommendations, for the tests of `recommend --out`."""

from pathlib import Path

from reconciler.usage.impact.result_rows import EvidenceNote, RecommendationRow
from reconciler.usage.recommendation.limit_sizes import Advice, SizingRule
from reconciler.usage.samples import DAY_MS, QuotaType
from reconciler.usage.tags import Bucket, bucket_of

PROD, STAGING = "4L6g3nShT-eMCtK--X86sw", "5M7h4oTiU-fNDuL--Y97tx"
BEGIN = 1_760_054_400_000 // DAY_MS * DAY_MS
EVIDENCE = EvidenceNote(
    cluster_id=PROD,
    from_ms=BEGIN,
    to_ms=BEGIN + 21 * DAY_MS,
    coverage_ppm=990_000,
    snapshot_id="look",
    partial=("3 days are missing",),
)
CLUSTERS = {"prod": PROD, "staging": STAGING}


def row(
    bucket: Bucket = bucket_of("alice"),  # noqa: B008 - a value
    kind: QuotaType = QuotaType.PRODUCE,
    target: int = 5_000,
    cluster_id: str = PROD,
) -> RecommendationRow:
    """A row of a change."""
    return RecommendationRow(
        cluster_id=cluster_id,
        quota_type=kind,
        bucket=bucket,
        source_entity="",
        tier="silver",
        advice=Advice.CHANGE,
        current_units=10_000,
        target_units=target,
        needed_units=1200,
        lower_units=1100,
        upper_units=1300,
        worst_week_units=1200,
        peak_units=2000,
        train_share_ppm=0,
        train_max_delay_ms=0,
        test_share_ppm=120,
        test_max_delay_ms=3000,
        confidence_ppm=990_000,
        censored_ppm=0,
        rules=(SizingRule.CUT,),
        evidence_ms=21 * DAY_MS,
        samples=5000,
        brokers=2,
    )


def project(
    folder: Path, *names: str, manifests: str = "manifests: [quotas]", grants: str = ""
) -> None:
    """A project file with these clusters."""
    text = f"apiVersion: kafka-quotas.io/v1alpha1\nkind: QuotaProject\nspec: {{{manifests}}}\n"
    for name in names or ("prod",):
        text += (
            "---\napiVersion: kafka-quotas.io/v1alpha1\nkind: QuotaCluster\n"
            f"metadata: {{name: {name}}}\nspec:\n  bootstrapServers: nowhere:9092\n"
            f"  expectedClusterId: {CLUSTERS[name]}\n{grants}"
        )
    (folder / "kquota.yaml").write_text(text)


def manifest(folder: Path, name: str, *documents: str) -> None:
    """A file with documents below `quotas`."""
    (folder / "quotas").mkdir(exist_ok=True)
    (folder / "quotas" / name).write_text("".join(documents))


def quota(
    name: str, limits: str, *, cluster: str = "prod", metadata: str = "", spec: str = ""
) -> str:
    """A document of user alice; `metadata` and `spec` are lines of these sections."""
    return (
        "---\napiVersion: kafka-quotas.io/v1alpha1\nkind: ClientQuota\n"
        f"metadata:\n  name: {name}\n{metadata}"
        f"spec:\n  clusterRef: {{name: {cluster}}}\n  entity: {{user: {{name: alice}}}}\n"
        f"  limits: {{{limits}}}\n{spec}"
    )
