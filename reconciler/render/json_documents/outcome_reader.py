"""Reading an outcome whole, to show it; ``json_outcome.read_undo`` reads what a rollback needs."""

from typing import Final

from reconciler.quota.keys import Key
from reconciler.quota.outcome import Applied, Held, Rejected, Result, Unknown
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.results.report import (
    Outcome,
    PairOutcome,
    PairVisibility,
    RunOrigin,
)
from reconciler.render.json_documents.codec import DocumentReader, load
from reconciler.render.json_documents.outcome import FORMAT, KIND

_KEYS: Final = {str(key): key for key in Key}
_CAUSES: Final = {str(cause): cause for cause in Cause}
_SEEN: Final = {str(visibility): visibility for visibility in PairVisibility}
_WORDS: Final = dict.fromkeys(("APPLIED", "REJECTED", "HELD", "UNKNOWN", "NOT SENT"))


def read_outcome(text: str, *, location: str) -> Outcome:
    """An outcome as far as it is shown: what became of each change, and what stopped the rest.

    Raises:
        ConfigError: It is cut off, edited out of shape, of another kind or format.
    """
    fields = load(text, kind=KIND, format_version=FORMAT, location=location).fields(
        "kind", "format", "clusterId", "digest", "startedAt", "endedAt", "origin", "complete", "interrupted",
        "recorded", "failure", "recordChanges", "adopted", "counts", "brokers", "pairs",
    )  # fmt: skip
    origin = fields["origin"].fields("who", "commit", "cluster", "toolVersion")
    outcome = Outcome(
        cluster_id=fields["clusterId"].text(),
        digest=fields["digest"].text(),
        pairs=tuple(_pair(row) for row in fields["pairs"].items()),
        bookkeeping=fields["recordChanges"].integer(),
        adopted=fields["adopted"].integer(),
        recorded=fields["recorded"].truth(),
        interrupted=fields["interrupted"].truth(),
        failure=fields["failure"].text(),
        started_at=fields["startedAt"].instant(),
        ended_at=fields["endedAt"].instant(),
        origin=RunOrigin(
            author=origin["who"].text(),
            commit=origin["commit"].text(),
            cluster=origin["cluster"].text(),
            tool_version=origin["toolVersion"].text(),
        ),
    )
    for word, number in fields["counts"].fields(*_WORDS).items():
        if number.integer() != outcome.count(word):
            number.fail(f"{outcome.count(word)}, as the pairs say")
    if fields["complete"].truth() is not outcome.complete:
        fields["complete"].fail(f"{outcome.complete}, as the pairs say".lower())
    return outcome


def _pair(reader: DocumentReader) -> PairOutcome:
    row = reader.fields(
        "entity", "text", "key", "cause", "before", "after", "outcome", "seen", "found",
        optional=("error", "waitsFor", "why"),
    )  # fmt: skip
    change = QuotaChange(
        entity=row["entity"].entity(),
        key=_KEYS[row["key"].choice(_KEYS)],
        before=row["before"].quota_value(),
        after=row["after"].quota_value(),
        cause=_CAUSES[row["cause"].choice(_CAUSES)],
    )
    return PairOutcome(
        change=change,
        result=_result(reader, row),
        visibility=_SEEN[row["seen"].choice(_SEEN)],
        observed_value=row["found"].quota_value(),
    )


def _result(reader: DocumentReader, row: dict[str, DocumentReader]) -> Result | None:
    word = row["outcome"].choice(_WORDS)
    needed = {"REJECTED": "error", "HELD": "waitsFor", "UNKNOWN": "why"}.get(word)
    if needed is not None and needed not in row:
        reader.fail(f"an object with the field {needed!r}")
    match word:
        case "APPLIED":
            return Applied()
        case "REJECTED":
            error = row["error"].fields("code", "name", "message")
            return Rejected(
                code=error["code"].integer(),
                name=error["name"].text(),
                message=error["message"].text(),
            )
        case "HELD":
            return Held(waits_for=tuple(blocker.entity() for blocker in row["waitsFor"].items()))
        case "UNKNOWN":
            return Unknown(reason=row["why"].text())
        case _:
            return None
