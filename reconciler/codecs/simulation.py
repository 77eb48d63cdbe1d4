"""A simulation as a section of a plan document. The reader refuses values that contradict the rest.

Keys of rows are the columns of ``impact_row``, so names contain the units.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from reconciler.codecs.reader import DocumentReader
from reconciler.errors import QuotaValueError
from reconciler.quota.entity_forms import canonical_text, read_canonical
from reconciler.render.json_values import Json
from reconciler.usage.demand_bounds import FigureBound
from reconciler.usage.impact.bucket_mapping import Identifiability
from reconciler.usage.impact.result_rows import (
    EvidenceNote,
    ImpactRow,
    Simulation,
    TierBreach,
)
from reconciler.usage.impact.verdict import ImpactVerdict, ToleranceBreach
from reconciler.usage.impact.what_if import REASONS
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import Bucket, GroupKind, bucket_of
from reconciler.usage.throttle_models import MODEL_OF, ThrottleModel

FORMAT: Final = 1

_TEXTS: Final = ("cluster_id", "broker_id", "source_entity", "why")
_WHOLES: Final = ("covered_ms", "censored_ms")
_FIGURES: Final = (
    "before_units",
    "after_units",
    "before_throttled_ms",
    "before_max_delay_ms",
    "observed_throttled_ms",
    "after_throttled_ms",
    "after_max_delay_ms",
    "after_over_timeout_ms",
    "delayed_units",
    "unfinished",
    "worst_throttled_ms",
    "worst_max_delay_ms",
)
_WORDS: Final[Mapping[str, type[StrEnum]]] = {
    "quota_type": QuotaType,
    "answer": Identifiability,
    "verdict": ImpactVerdict,
    "bound": FigureBound,
    "model": ThrottleModel,
}
_EVIDENCE_TEXTS: Final = ("cluster_id", "source", "snapshot_id", "stale")
_EVIDENCE_WHOLES: Final = ("from_ms", "to_ms", "made_ms", "step_ms", "coverage_ppm")


def whatif_document(simulation: Simulation) -> dict[str, Json]:
    """Return the section; equal simulations have equal sections.

    Buckets that the plan does not change (``flipped``, ``unexplained``) are only counted in the notes: a plan lists
    only clients that it changes.
    """
    return {
        "format": FORMAT,
        "enough": simulation.enough,
        "evidence": [_evidence(cluster_evidence) for cluster_evidence in simulation.evidence],
        "rows": [_row(row) for row in simulation.rows],
        "leftOut": simulation.left_out,
        "leftBlind": simulation.left_blind,
        "verdicts": {verdict.value: amount for verdict, amount in simulation.verdicts.items()},
        "breaches": [
            {
                "tier": breach.tier,
                "what": breach.breach.what,
                "found_ms": breach.breach.found_ms,
                "allowed_ms": breach.breach.allowed_ms,
                "row": _row(breach.row),
            }
            for breach in simulation.breaches
        ],
        "notes": list(simulation.notes),
    }


def _bucket(bucket: Bucket) -> dict[str, Json]:
    return {
        "group_kind": bucket.kind.value,
        "user": bucket.user,
        "client_id": bucket.client_id,
        "ip": bucket.ip,
    }


def _row(row: ImpactRow) -> dict[str, Json]:
    return {
        **_bucket(row.bucket),
        "any_name": row.any_name,
        **{name: getattr(row, name) for name in (*_TEXTS, *_WHOLES, *_FIGURES)},
        **{name: getattr(row, name).value for name in _WORDS},
    }


def _evidence(cluster_evidence: EvidenceNote) -> dict[str, Json]:
    return {
        **{name: getattr(cluster_evidence, name) for name in (*_EVIDENCE_TEXTS, *_EVIDENCE_WHOLES)},
        "partial": list(cluster_evidence.partial),
        "counts": dict(cluster_evidence.counts),
    }


# ---- reading -----------------------------------------------------------------------------------


def read_whatif(reader: DocumentReader, cluster_id: str) -> Simulation:
    """Read the simulation of a plan document of this cluster.

    Raises:
        ConfigError: It was edited, or written by another version.
    """
    if reader["format"].integer() != FORMAT:
        reader["format"].fail(f"{FORMAT}, the format of this version")
    left_out, left_blind = _count(reader["leftOut"]), _count(reader["leftBlind"])
    if left_blind > left_out:
        reader["leftBlind"].fail("at most leftOut")
    rows, verdicts = reader["rows"].rows(_read_row), _read_verdicts(reader["verdicts"])
    if sum(verdicts.values()) != len(rows) + left_out:
        reader["verdicts"].fail("as many as there are rows, shown or left out")
    try:
        simulation = Simulation(
            evidence=reader["evidence"].rows(_read_evidence),
            rows=rows,
            left_out=left_out,
            left_blind=left_blind,
            verdicts=verdicts,
            breaches=reader["breaches"].rows(_read_breach),
            notes=reader["notes"].rows(DocumentReader.text),
        )
    except QuotaValueError:
        reader["verdicts"].fail("those of the rows, shown or left out")
    clusters = {cluster_evidence.cluster_id for cluster_evidence in simulation.evidence} | {
        row.cluster_id for row in simulation.rows
    }
    clusters |= {breach.row.cluster_id for breach in simulation.breaches}
    if not clusters <= {cluster_id}:
        reader.fail("about the cluster of the plan")
    reader.expect(whatif_document(simulation))
    return simulation


def _count(reader: DocumentReader) -> int:
    number = reader.integer()
    if number < 0:
        reader.fail("0 or more")
    return number


def _read_bucket(row: DocumentReader, *, any_name: bool) -> Bucket:
    bucket = Bucket(
        kind=row["group_kind"].word(GroupKind),
        user=row["user"].text(),
        client_id=row["client_id"].text(),
        ip=row["ip"].text(),
    )
    if not any_name and bucket != bucket_of(bucket.user, bucket.client_id, bucket.ip):
        row["group_kind"].fail(repr(bucket_of(bucket.user, bucket.client_id, bucket.ip).kind.value))
    return bucket


def _read_verdicts(reader: DocumentReader) -> dict[ImpactVerdict, int]:
    words = {verdict.value: verdict for verdict in ImpactVerdict}
    amounts: dict[ImpactVerdict, int] = {}
    for name, amount in reader.pairs():
        if name not in words or not amount.integer():
            amount.fail("the number of rows, above 0, of a known verdict")
        amounts[words[name]] = _count(amount)
    return amounts


def _read_row(row: DocumentReader) -> ImpactRow:
    any_name = row["any_name"].boolean()
    kind = row["quota_type"].word(QuotaType)
    source = row["source_entity"].text()
    if source and not _is_entity(source):
        row["source_entity"].fail("an entity as canonical JSON")
    reason = row["why"].text()
    if reason not in REASONS:
        row["why"].fail("one of the reasons of a preview")
    figures = {name: row[name].optional(_count) for name in _FIGURES}
    impact_row = ImpactRow(
        quota_type=kind,
        bucket=_read_bucket(row, any_name=any_name),
        any_name=any_name,
        answer=row["answer"].word(Identifiability),
        verdict=row["verdict"].word(ImpactVerdict),
        bound=row["bound"].word(FigureBound),
        model=row["model"].word(ThrottleModel),
        cluster_id=row["cluster_id"].text(),
        broker_id=row["broker_id"].text(),
        source_entity=source,
        why=reason,
        covered_ms=_count(row["covered_ms"]),
        censored_ms=_count(row["censored_ms"]),
        **figures,
    )
    if impact_row.model is not MODEL_OF[kind]:
        row["model"].fail(repr(MODEL_OF[kind].value))
    if (impact_row.worst_throttled_ms is None) is (impact_row.bound is FigureBound.BETWEEN):
        row["bound"].fail("the bound that matches the figures")
    throttled_ms = impact_row.worst_throttled_ms or impact_row.after_throttled_ms
    if impact_row.verdict is ImpactVerdict.WORSE and not throttled_ms:
        row["verdict"].fail("the verdict that matches the figures")
    return impact_row


def _is_entity(text: str) -> bool:
    try:
        return canonical_text(read_canonical(text)) == text
    except QuotaValueError:
        return False


def _read_breach(row: DocumentReader) -> TierBreach:
    breach = ToleranceBreach(
        what=row["what"].choice({"newly throttled per day": 0, "worst delay": 0}),
        found_ms=_count(row["found_ms"]),
        allowed_ms=_count(row["allowed_ms"]),
    )
    if breach.found_ms <= breach.allowed_ms:
        row["found_ms"].fail("more than what is allowed")
    return TierBreach(row=_read_row(row["row"]), tier=row["tier"].text(), breach=breach)


def _read_evidence(row: DocumentReader) -> EvidenceNote:
    evidence = EvidenceNote(
        cluster_id=row["cluster_id"].text(),
        source=row["source"].text(),
        snapshot_id=row["snapshot_id"].text(),
        stale=row["stale"].text(),
        from_ms=_moment(row["from_ms"]),
        to_ms=_moment(row["to_ms"]),
        made_ms=_moment(row["made_ms"]),
        step_ms=_count(row["step_ms"]),
        coverage_ppm=_count(row["coverage_ppm"]),
        partial=row["partial"].rows(DocumentReader.text),
        counts={name: _count(count_reader) for name, count_reader in row["counts"].pairs()},
    )
    if evidence.from_ms > evidence.to_ms:
        row["from_ms"].fail("before to_ms")
    return evidence


def _moment(reader: DocumentReader) -> int:
    moment = _count(reader)
    if moment > 253_402_300_799_000:
        reader.fail("a time between the years 1 and 9999")
    return moment
