"""``kquota validate``: checks manifests without a cluster."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import click
from msgspec.structs import replace

from reconciler.app.requests import TargetRequest
from reconciler.cli.framework.commands import ExitCode, command, worst
from reconciler.cli.framework.console import Console, ConsoleNotices
from reconciler.cli.options.shared import format_option, where_options

if TYPE_CHECKING:
    from reconciler.app.clusters.targets import ClusterTarget
    from reconciler.manifest.loader import LoadedManifests
    from reconciler.quota.planner.desired_state import DesiredState
    from reconciler.render.source_findings import SourceFinding

HELP: Final = """Check manifests without a cluster: schema, Kafka's rules, conflicts, grants, bounds, questionable rules.

Without PATH, everything that the project file configures is checked, for every cluster in it.

\b
Example:
  kquota validate
  kquota validate quotas/payments --format json

\b
Exit codes:
  0  valid, perhaps with warnings, such as a value that looks like a wrong unit
  1  a file is wrong
  3  the scope, a grant or a bound refuses a document"""

_CODES: Final = {"manifest": ExitCode.ERROR, "conflict": ExitCode.ERROR, "guard": ExitCode.REFUSED}
_LABELS: Final = {
    "manifest": "error",
    "conflict": "error",
    "guard": "refused",
    "warning": "warning",
}


@command(help=HELP)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@where_options(revisions=True, contacts=False)
@format_option("text", "json")
@click.pass_obj
def validate(
    console: Console, *, paths: Sequence[str], where: TargetRequest, output: str
) -> ExitCode:
    """Collect the findings of every cluster, then print each once."""
    from reconciler.app.clusters.documents import load_loosely, reading

    files = 0
    documents: set[tuple[str, int]] = set()
    all_findings: set[SourceFinding] = set()
    for target in _targets(where, paths):
        with ConsoleNotices(console) as notices:
            loaded = load_loosely(target, paths, progress=reading(notices))
        files = max(files, loaded.file_count)
        documents.update(
            (declaration.path, declaration.line) for declaration in loaded.declarations
        )
        all_findings.update(_findings(target, loaded))
    findings = sorted(all_findings)
    if output == "json":
        _json(console, findings, files, len(documents))
    else:
        _text(console, findings, files, len(documents))
    return worst(_CODES.get(finding.rule, ExitCode.DONE) for finding in findings)


def _targets(cluster_options: TargetRequest, paths: Sequence[str]) -> "Sequence[ClusterTarget]":
    from reconciler.app.clusters.targets import offline_targets

    if cluster_options.by_address or cluster_options.cluster is not None:
        return offline_targets(cluster_options, paths)
    return offline_targets(replace(cluster_options, every=True), paths)


def _findings(target: "ClusterTarget", loaded: "LoadedManifests") -> "Iterable[SourceFinding]":
    from reconciler.base.clock import SystemClock
    from reconciler.quota.planner.desired_state import conflict_problems, merge
    from reconciler.quota.rule_warnings import NO_SETTINGS, warnings
    from reconciler.render.source_findings import SourceFinding, findings_of

    yield from _connection_findings(target)
    yield from findings_of(loaded.problems)
    yield from findings_of(loaded.warnings, rule="warning")
    for declarations in loaded.by_cluster.values():
        desired = merge(declarations, now=SystemClock().now())
        yield from findings_of(conflict_problems(desired.conflicts), rule="conflict")
        settings = NO_SETTINGS if target.project is None else target.project.warnings
        for warning in warnings(desired, settings=settings):
            if warning.accepted:
                continue
            path, _, line = warning.place.rpartition(":")
            yield SourceFinding(
                path=path, line=int(line), column=0, rule="warning", message=warning.message
            )
        yield from _static_violations(target, desired)


def _connection_findings(target: "ClusterTarget") -> "Iterable[SourceFinding]":
    """Yield wrong client properties of the project file, and secrets that are written out in it."""
    if target.project is None or not target.settings.properties:
        return
    from reconciler.client.client_config import literal_secrets, static_problems
    from reconciler.render.source_findings import SourceFinding

    path, properties = target.project.path, target.settings.properties
    for problem in static_problems(properties):
        message = f"QuotaCluster {target.name}: {problem}"
        yield SourceFinding(path=path, line=0, column=0, rule="manifest", message=message)
    for name in literal_secrets(properties):
        message = f"QuotaCluster {target.name}: {name} is written out; write ${{env:NAME}} or ${{file:/path:key}}"
        yield SourceFinding(path=path, line=0, column=0, rule="warning", message=message)


def _static_violations(
    target: "ClusterTarget", desired: "DesiredState"
) -> "Iterable[SourceFinding]":
    """Yield values outside their bounds, and warnings for likely wrong units.

    A plan refuses a likely wrong unit only if it writes the value; whether the value is already live is unknown here.
    """
    from reconciler.quota.entity import entity_text
    from reconciler.quota.ownership import OwnershipRecords
    from reconciler.quota.planner.comparison import compare
    from reconciler.quota.planner.guards import Guard, check
    from reconciler.quota.policy import Rules
    from reconciler.quota.state import QuotaState
    from reconciler.render.source_findings import SourceFinding

    rules = {
        Guard.BOUNDS_RANGE: "guard",
        Guard.BOUNDS_UNIT: "warning",
    }
    plan = compare(
        desired=desired, owned=OwnershipRecords(cluster_id=""), live=QuotaState(), rules=Rules()
    )
    for violation in check(plan, target.settings.guards, QuotaState()):
        rule = rules.get(violation.guard)
        if rule is not None and violation.entity is not None:
            path, _, line = violation.place.rpartition(":")
            message = f"{entity_text(violation.entity)}: {violation.message}; allow it with {violation.allow_with}"
            yield SourceFinding(
                path=path, line=int(line or 0), column=0, rule=rule, message=message
            )


def _text(
    console: Console, findings: "Sequence[SourceFinding]", files: int, documents: int
) -> None:
    from reconciler.base.escaping import escaped
    from reconciler.render import units

    for finding in findings:
        place = escaped(finding.path)
        place += f":{finding.line}" if finding.line else ""
        place += f":{finding.column}" if finding.column else ""
        console.fact(f"{place}: {_LABELS[finding.rule]}: {escaped(finding.message)}")
    wrong = sum(finding.rule in _CODES for finding in findings)
    console.fact(
        f"{units.count(files, 'file')}, {units.count(documents, 'document')}: "
        + (f"{units.count(wrong, 'problem')}" if wrong else "valid")
        + (f", {units.count(len(findings) - wrong, 'warning')}" if len(findings) > wrong else "")
    )


def _json(
    console: Console, findings: "Sequence[SourceFinding]", files: int, documents: int
) -> None:

    console.document(
        {
            "kind": "kquota-validation",
            "format": 1,
            "files": files,
            "documents": documents,
            "findings": [
                {
                    "path": finding.path,
                    "line": finding.line,
                    "column": finding.column,
                    "rule": finding.rule,
                    "level": _LABELS[finding.rule],
                    "message": finding.message,
                }
                for finding in findings
            ],
        }
    )
