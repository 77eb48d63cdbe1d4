"""``kquota validate``: everything that can be said about manifests without a cluster."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from reconciler import __version__
from reconciler.cli.commands import command
from reconciler.cli.console import Console, reading
from reconciler.cli.exits import Exit, worst
from reconciler.cli.options import Where, format_option, where_options

if TYPE_CHECKING:
    from reconciler.cli.where import Target
    from reconciler.manifest.load import Loaded
    from reconciler.quota.desired import Desired
    from reconciler.render.sarif import Finding

HELP: Final = """Check manifests without a cluster: schema, Kafka's rules, conflicts, grants, bounds, doubtful rules.

Without PATH, everything that the project file configures is checked, for every cluster in it.

\b
Example:
  kquota validate
  kquota validate quotas/payments --format sarif > validate.sarif

\b
Exit code 1: a file is wrong. 3: a value is outside its bounds, or a required label is missing. Warnings are 0; a value
that looks like a slip of the unit is a warning here, because a plan refuses it only if it is not live already."""

_CODES: Final = {"manifest": Exit.ERROR, "conflict": Exit.ERROR, "guard": Exit.REFUSED}
_LABELS: Final = {
    "manifest": "error",
    "conflict": "error",
    "guard": "refused",
    "warning": "warning",
}


@command(help=HELP)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@where_options(revisions=True)
@format_option("text", "json", "sarif")
@click.pass_obj
def validate(console: Console, *, paths: Sequence[str], where: Where, output: str) -> Exit:
    """Gather findings of every cluster, then print them once."""
    from reconciler.cli.documents import load_loosely

    files = documents = 0
    found: set[Finding] = set()
    for target in _targets(where, paths):
        with reading(console) as progress:
            loaded = load_loosely(target, paths, progress=progress)
        files = max(files, loaded.file_count)
        documents += sum(len(several) for several in loaded.by_cluster.values())
        found.update(_findings(target, loaded))
    findings = sorted(found)
    if output == "sarif":
        from reconciler.render.documents import dump
        from reconciler.render.sarif import sarif_document

        console.fact(dump(sarif_document(findings, tool_version=__version__)))
    elif output == "json":
        _json(console, findings, files, documents)
    else:
        _text(console, findings, files, documents)
    return worst(_CODES.get(finding.rule, Exit.DONE) for finding in findings)


def _targets(where: Where, paths: Sequence[str]) -> "Sequence[Target]":
    """All clusters of the project unless one was chosen: a file is wrong for whomever it is wrong."""
    from reconciler.cli.where import offline_targets

    if where.by_address or where.cluster is not None:
        return offline_targets(where, paths)
    return offline_targets(replace(where, every=True), paths)


def _findings(target: "Target", loaded: "Loaded") -> "Iterable[Finding]":
    from reconciler.manifest.conflict import conflict_problems
    from reconciler.quota.advice import warnings
    from reconciler.quota.desired import merge
    from reconciler.render.sarif import Finding, findings_of

    yield from findings_of(loaded.problems)
    yield from findings_of(loaded.warnings, rule="warning")
    for declarations in loaded.by_cluster.values():
        desired = merge(declarations)
        yield from findings_of(conflict_problems(desired), rule="conflict")
        accepted = () if target.project is None else target.project.accepted_warnings
        for warning in warnings(desired, accepted=accepted):
            if warning.accepted:
                continue
            path, _, line = warning.place.rpartition(":")
            yield Finding(
                path=path, line=int(line), column=0, rule="warning", message=warning.message
            )
        yield from _refused(target, desired)


def _refused(target: "Target", desired: "Desired") -> "Iterable[Finding]":
    """Values that bounds refuse in any plan and documents that lack labels; a warning for each likely slip of a unit.

    A slip is refused by plans that write it. A value that is live already is not written, and is not known here.
    """
    from reconciler.quota.guards import Guard, check
    from reconciler.quota.owned import Owned
    from reconciler.quota.plan import compare
    from reconciler.quota.policy import Rules
    from reconciler.quota.state import State
    from reconciler.render.names import entity_text
    from reconciler.render.sarif import Finding

    rules = {Guard.BOUNDS: "guard", Guard.REQUIRED_LABELS: "guard", Guard.UNIT_SLIP: "warning"}
    plan = compare(desired=desired, owned=Owned(cluster_id=""), live=State(), rules=Rules())
    for violation in check(plan, target.settings.guards, State()):
        rule = rules.get(violation.guard)
        if rule is not None and violation.entity is not None:
            path, _, line = violation.place.rpartition(":")
            message = f"{entity_text(violation.entity)}: {violation.message}; allow it with {violation.allow_with}"
            yield Finding(path=path, line=int(line or 0), column=0, rule=rule, message=message)


def _text(console: Console, findings: "Sequence[Finding]", files: int, documents: int) -> None:
    from reconciler.render import units
    from reconciler.render.names import escaped

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


def _json(console: Console, findings: "Sequence[Finding]", files: int, documents: int) -> None:
    from reconciler.render.documents import dump

    console.fact(
        dump(
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
    )
