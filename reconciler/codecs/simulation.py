"""A simulation as a section of a plan document. The reader refuses values that contradict the rest.

Keys of rows are the columns of ``impact_row``, so names contain the units.
"""

from typing import Final

from reconciler.codecs.reader import DocumentReader
from reconciler.codecs.row_values import json_of, read_row, row_document
from reconciler.errors import QuotaValueError
from reconciler.quota.entity_forms import canonical_text, read_canonical
from reconciler.render.json_values import Json
from reconciler.usage.demand_bounds import FigureBound
from reconciler.usage.impact.result_rows import EvidenceNote, ImpactRow, Simulation, TierBreach
from reconciler.usage.impact.verdict import ImpactVerdict, ToleranceBreach
from reconciler.usage.impact.what_if import REASONS
from reconciler.usage.samples import LATEST_MOMENT_MS, MODEL_OF
from reconciler.usage.tags import bucket_of

FORMAT: Final = 1


def whatif_document(simulation: Simulation) -> dict[str, Json]:
    """Return the section; equal simulations have equal sections."""
    return {
        "format": FORMAT,
        "enough": simulation.enough,
        "evidence": json_of(simulation.evidence),
        "rows": json_of(simulation.rows),
        "leftOut": simulation.left_out,
        "leftBlind": simulation.left_blind,
        "verdicts": json_of(simulation.verdicts),
        "breaches": [
            {"tier": breach.tier, "row": json_of(breach.row), **row_document(breach.breach)}
            for breach in simulation.breaches
        ],
        "notes": list(simulation.notes),
    }


# ---- reading -----------------------------------------------------------------------------------


def read_whatif(reader: DocumentReader, cluster_id: str) -> Simulation:
    """Read the simulation of a plan document of this cluster."""
    if reader["format"].integer() != FORMAT:
        reader["format"].fail(f"{FORMAT}, the format of this version")
    left_out, left_blind = reader["leftOut"].amount(), reader["leftBlind"].amount()
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


def _read_verdicts(reader: DocumentReader) -> dict[ImpactVerdict, int]:
    words = {verdict.value: verdict for verdict in ImpactVerdict}
    amounts: dict[ImpactVerdict, int] = {}
    for name, amount in reader.pairs():
        if name not in words or not amount.integer():
            amount.fail("the number of rows, above 0, of a known verdict")
        amounts[words[name]] = amount.amount()
    return amounts


def _read_row(row: DocumentReader) -> ImpactRow:
    impact_row = read_row(row, ImpactRow)
    bucket = impact_row.bucket
    named_bucket = bucket_of(bucket.user, bucket.client_id, bucket.ip)
    if not impact_row.any_name and bucket != named_bucket:
        row["group_kind"].fail(repr(named_bucket.kind.value))
    if impact_row.source_entity and not _is_entity(impact_row.source_entity):
        row["source_entity"].fail("an entity as canonical JSON")
    if impact_row.why not in REASONS:
        row["why"].fail("one of the reasons of a preview")
    kind = impact_row.quota_type
    if impact_row.model is not MODEL_OF[kind]:
        row["model"].fail(repr(MODEL_OF[kind].value))
    if (impact_row.worst_throttled_ms is None) is (impact_row.bound is FigureBound.BETWEEN):
        row["bound"].fail("the bound that matches the figures")
    throttled_ms = impact_row.worst_throttled_ms or impact_row.after_throttled_ms
    is_known = impact_row.bound is not FigureBound.AT_LEAST
    if impact_row.verdict is ImpactVerdict.WORSE and is_known and not throttled_ms:
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
        found_ms=row["found_ms"].amount(),
        allowed_ms=row["allowed_ms"].amount(),
    )
    if breach.found_ms <= breach.allowed_ms:
        row["found_ms"].fail("more than what is allowed")
    return TierBreach(row=_read_row(row["row"]), tier=row["tier"].text(), breach=breach)


def _read_evidence(row: DocumentReader) -> EvidenceNote:
    evidence = read_row(row, EvidenceNote)
    for name in ("from_ms", "to_ms", "made_ms"):
        if row[name].amount() > LATEST_MOMENT_MS:
            row[name].fail("a time between the years 1 and 9999")
    if evidence.from_ms > evidence.to_ms:
        row["from_ms"].fail("before to_ms")
    return evidence
