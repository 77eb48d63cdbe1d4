"""Reading a saved plan back, strictly: what was edited, cut off, or made by another version is refused.

The digest is computed from the operations that are read, and must be the one that stands in the document. That
shows an edit; it is no signature, so ``apply`` also recomputes the plan from the documents.
"""

from reconciler.errors import ConfigError, StalePlan
from reconciler.quota.basis import Basis, Ground
from reconciler.quota.change import Change, Plan
from reconciler.quota.desired import Declaration
from reconciler.quota.keys import Key
from reconciler.quota.owned import Owner
from reconciler.quota.policy import Cause, DeletionPolicy, DriftMode, Policy
from reconciler.quota.report import Origin, Preview, Verdict
from reconciler.quota.state import NO_LIMITS, limits_of
from reconciler.render.documents import Reader, load
from reconciler.render.json_plan import FORMAT, KIND
from reconciler.render.reasons import SECTIONS

_KEYS = {str(key): key for key in Key}
_CAUSES = {str(cause): cause for cause in Cause}
_POLICIES = {str(policy): policy for policy in Policy}
_DRIFT_MODES = {str(mode): mode for mode in DriftMode}
_DELETION_POLICIES = {str(policy): policy for policy in DeletionPolicy}

_USED = (
    "clusterId", "created", "origin", "policy", "driftDetection", "complete", "removalsKnown", "digest",
    "counts", "changes", "reliedOn", "validation",
)  # fmt: skip
_OTHERS = (
    "kind", "format", "createdAt", "applyable", "errored", "takeover", "corrected", "conflicts", "twins",
    "violations", "warnings", "advice", "impact", *(kind.name for kind in SECTIONS),
)  # fmt: skip
_CHANGE = (
    "entity", "text", "level", "key", "actions", "cause", "before", "after", "reason", "note", "owner", "record",
    "file", "line", "document",
)  # fmt: skip


def read_plan(text: str, *, where: str) -> Preview:
    """The preview as far as applying it needs: changes, what they stand on, when and for which cluster.

    Guards, impact and findings are left out: whoever applies makes them anew, from the trusted side.

    Raises:
        StalePlan: It has another format, so another version of this program made it.
        ConfigError: It is cut off, edited, or no plan.
    """
    try:
        top = load(text, kind=KIND, format_version=FORMAT, where=where)
    except ConfigError as error:
        if error.key == "format":
            raise StalePlan(str(error), differences=(error.message,), hint=error.hint) from error
        raise
    fields = top.fields(*_USED, *_OTHERS, optional=("snapshotTakenAt",))
    read = [_change(one) for one in fields["changes"].items()]
    plan = Plan(
        cluster_id=fields["clusterId"].text(),
        changes=tuple(change for change, _ in read),
        desired_pairs=_count(fields["counts"], "declared"),
        in_sync=_count(fields["counts"], "inSync"),
        owned_pairs=_count(fields["counts"], "owned"),
        removals_known=fields["removalsKnown"].truth(),
        complete=fields["complete"].truth(),
    )
    if plan.digest != fields["digest"].text():
        raise ConfigError(
            "its changes and its digest do not belong together, so it was edited",
            where=where,
            hint="plan again",
        )
    origin = fields["origin"].fields("who", "commit", "toolVersion")
    return Preview(
        plan=plan,
        basis=Basis(
            pairs=tuple(ground for _, ground in read),
            relied_on=tuple(_ground(one) for one in fields["reliedOn"].items()),
        ),
        verdict=Verdict(
            source=fields["validation"].fields("source", "why", "refused")["source"].text()
        ),
        policy=_POLICIES[fields["policy"].one_of(_POLICIES)],
        drift_mode=_DRIFT_MODES[fields["driftDetection"].one_of(_DRIFT_MODES)],
        created_at=fields["created"].number(),
        snapshot_at=fields["created"].number() if "snapshotTakenAt" in fields else None,
        origin=Origin(
            who=origin["who"].text(),
            commit=origin["commit"].text(),
            tool_version=origin["toolVersion"].text(),
        ),
    )


def _change(reader: Reader) -> tuple[Change, Ground]:
    row = reader.fields(*_CHANGE, optional=("effect",))
    subject = row["entity"].entity()
    key = _KEYS[row["key"].one_of(_KEYS)]
    before, after = row["before"].quota_value(), row["after"].quota_value()
    if before == after:
        row["after"].fail("another value than before")
    applied, document = None, ""
    if row["record"].value is not None:
        record = row["record"].fields("value", "document")
        applied, document = record["value"].quota_value(), record["document"].text()
    change = Change(
        entity=subject,
        key=key,
        before=before,
        after=after,
        cause=_CAUSES[row["cause"].one_of(_CAUSES)],
        claim=_claim(row, key, after),
        owner=_owner(row["owner"]),
        applied=applied,
        note=row["note"].text(),
    )
    if [one.text() for one in row["actions"].items()] != [change.action]:
        row["actions"].fail(f'["{change.action}"], as before and after say')
    return change, Ground(entity=subject, key=key, live=before, applied=applied, document=document)


def _claim(row: dict[str, Reader], key: Key, after: float | None) -> Declaration | None:
    """The declaration as far as a change knows it: its name, its place and this one value."""
    if row["document"].value is None:
        return None
    lines = [0, 0, 0, 0, 0]
    lines[list(Key).index(key)] = row["line"].whole()
    one, two, three, four, five = lines
    return Declaration(
        document=row["document"].text(),
        entity=row["entity"].entity(),
        limits=NO_LIMITS if after is None else limits_of({key: after}),
        path=row["file"].text(),
        line=row["line"].whole(),
        lines=(one, two, three, four, five),
    )


def _owner(reader: Reader) -> Owner | None:
    if reader.value is None:
        return None
    owner = reader.fields("document", "deletionPolicy", "since")
    policy = owner["deletionPolicy"]
    return Owner(
        document=owner["document"].text(),
        deletion_policy=None
        if policy.value is None
        else _DELETION_POLICIES[policy.one_of(_DELETION_POLICIES)],
        since=owner["since"].number(),
    )


def _ground(reader: Reader) -> Ground:
    one = reader.fields("entity", "key", "live", "applied", "document")
    return Ground(
        entity=one["entity"].entity(),
        key=_KEYS[one["key"].one_of(_KEYS)],
        live=one["live"].quota_value(),
        applied=one["applied"].quota_value(),
        document=one["document"].text(),
    )


def _count(reader: Reader, name: str) -> int:
    found = dict(reader.pairs()).get(name)
    return reader.fail(f"an object with the field {name!r}") if found is None else found.whole()
