"""A simulation as a section of a plan document, and read back strictly: what does not follow from the rest is refused.

Keys of rows are the columns of ``impact_row``, so names carry the units.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, TypeVar

from reconciler.errors import KquotaError, QuotaValueError
from reconciler.render.documents import Json, Reader
from reconciler.usage.buckets import Answer
from reconciler.usage.censoring import Bound
from reconciler.usage.findings import Evidence, ImpactRow, Simulation, TierBreach
from reconciler.usage.samples import QuotaType
from reconciler.usage.tables import entity_text, read_entity
from reconciler.usage.tags import Bucket, GroupKind, bucket_of
from reconciler.usage.throttle import MODEL_OF, Model
from reconciler.usage.verdict import Breach, Verdict
from reconciler.usage.whatif import REASONS

FORMAT: Final = 1

T = TypeVar("T")
Word = TypeVar("Word", bound=StrEnum)

_BUCKET: Final = ("group_kind", "user", "client_id", "ip")
_TEXTS: Final = ("cluster_id", "broker_id", "source_entity", "why")
_WHOLES: Final = ("covered_ms", "censored_ms")
_FIGURES: Final = (
    "before_units", "after_units", "before_throttled_ms", "before_max_delay_ms", "observed_throttled_ms",
    "after_throttled_ms", "after_max_delay_ms", "after_over_timeout_ms", "delayed_units", "unfinished",
)  # fmt: skip
_WORDS: Final[Mapping[str, type[StrEnum]]] = {
    "quota_type": QuotaType,
    "answer": Answer,
    "verdict": Verdict,
    "bound": Bound,
    "model": Model,
}
_EVIDENCE_TEXTS: Final = ("cluster_id", "source", "snapshot_id", "stale")
_EVIDENCE_WHOLES: Final = ("from_ms", "to_ms", "made_ms", "step_ms", "coverage_ppm")


def whatif_document(found: Simulation) -> dict[str, Json]:
    """The section; equal simulations give equal ones.

    Buckets that are only noticed (``flipped``, ``unexplained``) are counted in the notes and not named: a plan tells of
    nobody whom it does not change.
    """
    return {
        "format": FORMAT,
        "enough": found.enough,
        "evidence": [_evidence(one) for one in found.evidence],
        "rows": [_row(one) for one in found.rows],
        "leftOut": found.left_out,
        "leftBlind": found.left_blind,
        "verdicts": {one.value: amount for one, amount in found.verdicts.items()},
        "breaches": [
            {
                "tier": one.tier,
                "what": one.breach.what,
                "found_ms": one.breach.found_ms,
                "allowed_ms": one.breach.allowed_ms,
                "row": _row(one.row),
            }
            for one in found.breaches
        ],
        "notes": list(found.notes),
    }


def _bucket(one: Bucket) -> dict[str, Json]:
    return {
        "group_kind": one.kind.value,
        "user": one.user,
        "client_id": one.client_id,
        "ip": one.ip,
    }


def _row(one: ImpactRow) -> dict[str, Json]:
    return {
        **_bucket(one.bucket),
        "any_name": one.any_name,
        **{name: getattr(one, name) for name in (*_TEXTS, *_WHOLES, *_FIGURES)},
        **{name: getattr(one, name).value for name in _WORDS},
    }


def _evidence(one: Evidence) -> dict[str, Json]:
    return {
        **{name: getattr(one, name) for name in (*_EVIDENCE_TEXTS, *_EVIDENCE_WHOLES)},
        "partial": list(one.partial),
        "counts": dict(one.counts),
    }


# ---- reading -----------------------------------------------------------------------------------


def read_whatif(reader: Reader, cluster_id: str) -> Simulation:
    """The simulation of a plan document of this cluster.

    Raises:
        ConfigError: It was edited, or made by another version.
    """
    top = reader.fields(
        "format", "enough", "evidence", "rows", "leftOut", "leftBlind", "verdicts", "breaches", "notes"
    )  # fmt: skip
    if top["format"].whole() != FORMAT:
        top["format"].fail(f"{FORMAT}, the format of this version")
    left_out, left_blind = _count(top["leftOut"]), _count(top["leftBlind"])
    if left_blind > left_out:
        top["leftBlind"].fail("at most leftOut")
    rows, verdicts = _list(top["rows"], _read_row), _read_verdicts(top["verdicts"])
    if sum(verdicts.values()) != len(rows) + left_out:
        top["verdicts"].fail("as many as there are rows, shown or left out")
    try:
        made = Simulation(
            evidence=_list(top["evidence"], _read_evidence),
            rows=rows,
            left_out=left_out,
            left_blind=left_blind,
            verdicts=verdicts,
            breaches=_list(top["breaches"], _read_breach),
            notes=_list(top["notes"], Reader.text),
        )
    except QuotaValueError:
        top["verdicts"].fail("those of the rows, shown or left out")
    if top["enough"].truth() is not made.enough:
        top["enough"].fail(f"{made.enough}, as the rows say".lower())
    clusters = {one.cluster_id for one in made.evidence} | {one.cluster_id for one in made.rows}
    clusters |= {one.row.cluster_id for one in made.breaches}
    if not clusters <= {cluster_id}:
        reader.fail("about the cluster of the plan")
    return made


def _list(reader: Reader, make: Callable[[Reader], T]) -> tuple[T, ...]:
    return tuple(make(one) for one in reader.items())


def _count(reader: Reader) -> int:
    found = reader.whole()
    if found < 0:
        reader.fail("0 or more")
    return found


def _word(reader: Reader, words: type[Word]) -> Word:
    return words(reader.one_of({one.value: one for one in words}))


def _read_bucket(row: Mapping[str, Reader], *, any_name: bool) -> Bucket:
    made = Bucket(
        kind=_word(row["group_kind"], GroupKind),
        user=row["user"].text(),
        client_id=row["client_id"].text(),
        ip=row["ip"].text(),
    )
    if not any_name and made != bucket_of(made.user, made.client_id, made.ip):
        row["group_kind"].fail(repr(bucket_of(made.user, made.client_id, made.ip).kind.value))
    return made


def _read_verdicts(reader: Reader) -> dict[Verdict, int]:
    words = {one.value: one for one in Verdict}
    found: dict[Verdict, int] = {}
    for name, amount in reader.pairs():
        if name not in words or not amount.whole():
            amount.fail("how many rows, above 0, have a verdict that there is")
        found[words[name]] = _count(amount)
    return found


def _read_row(reader: Reader) -> ImpactRow:
    row = reader.fields(*_BUCKET, "any_name", *_TEXTS, *_WHOLES, *_FIGURES, *_WORDS)
    any_name = row["any_name"].truth()
    kind = _word(row["quota_type"], QuotaType)
    source = row["source_entity"].text()
    if source and not _is_entity(source):
        row["source_entity"].fail("an entity as canonical JSON")
    why = row["why"].text()
    if why not in REASONS:
        row["why"].fail("one of the reasons that a preview has")
    figures = {name: None if row[name].value is None else _count(row[name]) for name in _FIGURES}
    made = ImpactRow(
        quota_type=kind,
        bucket=_read_bucket(row, any_name=any_name),
        any_name=any_name,
        answer=_word(row["answer"], Answer),
        verdict=_word(row["verdict"], Verdict),
        bound=_word(row["bound"], Bound),
        model=_word(row["model"], Model),
        cluster_id=row["cluster_id"].text(),
        broker_id=row["broker_id"].text(),
        source_entity=source,
        why=why,
        covered_ms=_count(row["covered_ms"]),
        censored_ms=_count(row["censored_ms"]),
        **figures,
    )
    if made.model is not MODEL_OF[kind]:
        row["model"].fail(repr(MODEL_OF[kind].value))
    if made.verdict is Verdict.WORSE and not made.after_throttled_ms:
        row["verdict"].fail("another word, as the figures say")
    return made


def _is_entity(text: str) -> bool:
    try:
        return entity_text(read_entity(text)) == text
    except (ValueError, TypeError, KquotaError):
        return False


def _read_breach(reader: Reader) -> TierBreach:
    row = reader.fields("tier", "what", "found_ms", "allowed_ms", "row")
    breach = Breach(
        what=row["what"].one_of({"newly throttled per day": 0, "worst delay": 0}),
        found_ms=_count(row["found_ms"]),
        allowed_ms=_count(row["allowed_ms"]),
    )
    if breach.found_ms <= breach.allowed_ms:
        row["found_ms"].fail("more than what is allowed")
    return TierBreach(row=_read_row(row["row"]), tier=row["tier"].text(), breach=breach)


def _read_evidence(reader: Reader) -> Evidence:
    row = reader.fields(*_EVIDENCE_TEXTS, *_EVIDENCE_WHOLES, "partial", "counts")
    made = Evidence(
        cluster_id=row["cluster_id"].text(),
        source=row["source"].text(),
        snapshot_id=row["snapshot_id"].text(),
        stale=row["stale"].text(),
        from_ms=_moment(row["from_ms"]),
        to_ms=_moment(row["to_ms"]),
        made_ms=_moment(row["made_ms"]),
        step_ms=_count(row["step_ms"]),
        coverage_ppm=_count(row["coverage_ppm"]),
        partial=_list(row["partial"], Reader.text),
        counts={name: _count(one) for name, one in row["counts"].pairs()},
    )
    if made.from_ms > made.to_ms:
        row["from_ms"].fail("before to_ms")
    return made


def _moment(reader: Reader) -> int:
    found = _count(reader)
    if found > 253_402_300_799_000:
        reader.fail("a time that a calendar has")
    return found
