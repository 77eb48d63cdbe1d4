"""The reason of a pair in a plan as a sentence, and its section. Tables; code must not depend on the texts."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from reconciler.quota.entity import Entity, entity_text
from reconciler.quota.planner.permitted_plan import NOTE_RETAINED
from reconciler.quota.planner.plan import TEMPORARY, Finding, Plan
from reconciler.quota.policy import Action, Cause
from reconciler.quota.results.report import Preview

REASONS: Final[Mapping[Cause, str]] = {
    Cause.IN_SYNC: "declared, recorded and live agree",
    Cause.ADOPT: "already live as declared; recorded as managed",
    Cause.CREATE: "declared, not live",
    Cause.TAKEOVER: "declared; another value is live, without an ownership record",
    Cause.SPEC: "the declaration changed",
    Cause.CONVERGED: "another writer already set what is declared; recorded",
    Cause.DRIFT: "the live value changed outside kquota",
    Cause.SPEC_OVER_DRIFT: "the declaration changed, and so did the live value outside kquota",
    Cause.PRUNE: "managed, no longer declared",
    Cause.CHANGED_BY_ANOTHER: "no longer declared, but another writer changed it since",
    Cause.GONE: "no longer declared and not live; record removed",
    Cause.UNMANAGED: "live, not declared, not managed",
    Cause.FROZEN: "its document is suspended or cannot be used",
    Cause.OVERRIDE: "an override is in force",
    Cause.TEMPORARY: "a document with an end declares it for now",
    Cause.ENDED: "a temporary limit has ended",
}


REMOVAL_BY_DOCUMENT: Final = (
    "restore its document with deletionPolicy: Delete, apply that, and then delete the document"
)
REMOVAL_COMMAND: Final = (
    "kafka-client-quotas --bootstrap-server HOST:PORT --alter --names ENTITY --delete KEY"
)
REMOVAL: Final = f"{REMOVAL_BY_DOCUMENT}; or run {REMOVAL_COMMAND}"
"""How to remove a limit whose document was deleted."""


class SectionKind(Struct, frozen=True, gc=False):
    """One kind of findings."""

    name: str  # field of the JSON document
    title: str
    mark: str  # one character for the table
    colour: str
    description: str


SECTIONS: Final = tuple(
    SectionKind(*row.split(" | "))
    for row in f"""\
drift | Drift | ! | yellow | Values changed outside kquota; they are written back only with driftDetection Correct or --correct-drift.
restricted | Restricted by policy | · | yellow | These differ from what is declared, but the policy in force does not write them.
changedByAnother | Changed by another writer | ! | yellow | No longer declared, but changed by another writer since; left alone.
notRemoved | Not removed | · | dim | No longer declared; this run may not remove them.
newOrphans | Deleted documents whose limits stay in Kafka | ! | yellow | To remove such a limit, {REMOVAL}.
released | Left alone | o | dim | Their documents were deleted with deletionPolicy: Retain, or without a grant of Delete; these limits stay in Kafka.
orphans | Limits of documents deleted before | o | dim | No document declares these limits any more; they stay in Kafka.
overrides | Temporary limits | ^ | cyan | These values of overrides and of documents with an end apply until their end, instead of others.
frozen | Suspended or unusable documents | * | dim | The documents of these limits are suspended or cannot be used; nothing is written.
ignored | Ignored | · | dim | Excluded by an ignore rule: neither written nor reported.
recorded | Recorded only | = | dim | Nothing is written to the cluster; at most the ownership records change.
unmanaged | Not managed by kquota | ? | dim | Live, declared by no document: listed only.
""".splitlines()
)
"""In display order."""

DRIFT: Final = SECTIONS[0]

_BY_CAUSE: Final[Mapping[Cause, str]] = {
    Cause.DRIFT: "drift",
    Cause.UNMANAGED: "unmanaged",
    Cause.FROZEN: "frozen",
    Cause.CHANGED_BY_ANOTHER: "changedByAnother",
    Cause.PRUNE: "notRemoved",
    Cause.ADOPT: "recorded",
    Cause.CONVERGED: "recorded",
    Cause.GONE: "recorded",
    Cause.OVERRIDE: "overrides",
    Cause.TEMPORARY: "overrides",
}


def section_of(finding: Finding) -> str:
    """Return the only section of a finding."""
    if finding.ignored:
        return "ignored"
    if finding.action is Action.ORPHAN:
        kind = "newOrphans" if finding.is_new else "orphans"
        return "released" if finding.note == NOTE_RETAINED else kind
    if finding.cause in TEMPORARY and finding.action is Action.REPORT:
        return "restricted"
    return _BY_CAUSE.get(finding.cause, "restricted")


def sections(plan: Plan) -> Mapping[str, tuple[Finding, ...]]:
    """Return all findings of a plan by section, in plan order; every section is present."""
    findings_by_kind: dict[str, list[Finding]] = {kind.name: [] for kind in SECTIONS}
    for finding in plan.findings:
        findings_by_kind[section_of(finding)].append(finding)
    return {name: tuple(findings) for name, findings in findings_by_kind.items()}


def counts(preview: Preview) -> Mapping[str, int]:
    """Return the number of changes and findings by kind."""
    plan = preview.plan
    actions = [change.action for change in plan.changes]
    return {
        "create": actions.count("create"),
        "update": actions.count("update"),
        "remove": actions.count("remove"),
        "entities": len({change.entity for change in plan.changes}),
        "declared": plan.desired_pairs,
        "inSync": plan.in_sync,
        "owned": plan.owned_pairs,
        "takeover": sum(change.cause is Cause.TAKEOVER for change in plan.changes),
        "conflicts": len(plan.conflicts),
        "violations": len(preview.violations),
        "refused": len(preview.verdict.rejections),
        **{name: len(findings) for name, findings in sections(plan).items()},
    }


def status_word(status: str) -> str:
    """Return the outcome of a change as people read it; documents keep ``HELD``."""
    return status.replace("HELD", "WAITING")


def waits_text(subject: Entity, waits_for: Iterable[Entity]) -> str:
    """Return the text of what a held entity waits for; an earlier write of its own is not another entity."""
    return "waits for " + "; ".join(
        "an earlier write of its own that may still land (up to 65 s)"
        if entity == subject
        else entity_text(entity)
        for entity in waits_for
    )
