"""Reads the JSON report of ``kquota spark recommend``. Strict: it is written again and compared."""

from reconciler.codecs.reader import DocumentReader, load
from reconciler.evidence.render.report_json import FORMAT, KINDS, report_document
from reconciler.usage.impact.result_rows import EvidenceNote, RecommendationRow
from reconciler.usage.recommendation.limit_sizes import Advice, SizingRule
from reconciler.usage.reports.usage import UsageReport
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import Bucket, GroupKind


def read_recommendations(text: str, *, location: str) -> UsageReport:
    """Return the report that ``recommend --format json`` printed: evidence, recommendations and notes.

    Raises:
        ConfigError: It is truncated, edited, of another kind or format, or the report of another command.
    """
    top = load(text, kind=KINDS[UsageReport], format_version=FORMAT, location=location)
    report = UsageReport(
        evidence=top["evidence"].rows(_evidence),
        recommendations=top["recommendations"].rows(_recommendation),
        left_out={name: count.amount() for name, count in top["left_out"].pairs()},
        notes=top["notes"].rows(DocumentReader.text),
    )
    top.expect(report_document(report))
    return report


def _evidence(row: DocumentReader) -> EvidenceNote:
    return EvidenceNote(
        cluster_id=row["cluster_id"].text(),
        source=row["source"].text(),
        snapshot_id=row["snapshot_id"].text(),
        partial=row["partial"].rows(DocumentReader.text),
        counts={name: count.amount() for name, count in row["counts"].pairs()},
        stale=row["stale"].text(),
        from_ms=row["from_ms"].amount(),
        to_ms=row["to_ms"].amount(),
        made_ms=row["made_ms"].amount(),
        step_ms=row["step_ms"].amount(),
        coverage_ppm=row["coverage_ppm"].amount(),
    )


def _recommendation(row: DocumentReader) -> RecommendationRow:
    return RecommendationRow(
        cluster_id=row["cluster_id"].text(),
        quota_type=row["quota_type"].word(QuotaType),
        bucket=Bucket(
            kind=row["group_kind"].word(GroupKind),
            user=row["user"].text(),
            client_id=row["client_id"].text(),
            ip=row["ip"].text(),
        ),
        source_entity=row["source_entity"].text(),
        tier=row["tier"].text(),
        advice=row["advice"].word(Advice),
        rules=row["rules"].rows(_rule),
        current_units=row["current_units"].optional(DocumentReader.amount),
        target_units=row["target_units"].optional(DocumentReader.amount),
        needed_units=row["needed_units"].optional(DocumentReader.amount),
        lower_units=row["lower_units"].optional(DocumentReader.amount),
        upper_units=row["upper_units"].optional(DocumentReader.amount),
        worst_week_units=row["worst_week_units"].optional(DocumentReader.amount),
        train_share_ppm=row["train_share_ppm"].optional(DocumentReader.amount),
        train_max_delay_ms=row["train_max_delay_ms"].optional(DocumentReader.amount),
        test_share_ppm=row["test_share_ppm"].optional(DocumentReader.amount),
        test_max_delay_ms=row["test_max_delay_ms"].optional(DocumentReader.amount),
        peak_units=row["peak_units"].amount(),
        confidence_ppm=row["confidence_ppm"].amount(),
        censored_ppm=row["censored_ppm"].amount(),
        evidence_ms=row["evidence_ms"].amount(),
        samples=row["samples"].amount(),
        brokers=row["brokers"].amount(),
    )


def _rule(row: DocumentReader) -> SizingRule:
    return row.word(SizingRule)
