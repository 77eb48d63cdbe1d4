"""The part shared by ``plan`` and ``apply``: the options of a run, and a prepared plan from documents and options.

The options are those of the trusted configuration, tightened or relaxed by what was typed.
"""

import csv
import io
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from reconciler import __version__
from reconciler.app.clusters.documents import STDIN, ClusterDocuments, load, reading
from reconciler.app.clusters.runtime import Runtime, check_records, current_principal
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.notices import Notices
from reconciler.app.requests import PlanRequest
from reconciler.base.text_files import read_text
from reconciler.errors import GitError, PlanRefused, UsageError
from reconciler.quota.entity import Entity, entity_text
from reconciler.quota.keys import Key
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.planner.comparison import compare
from reconciler.quota.planner.desired_state import DesiredState
from reconciler.quota.planner.guards import Guard, Guards, NewlyUnlimited, check
from reconciler.quota.policy import STRICTNESS, DriftMode, Policy, Rules
from reconciler.quota.precedence import Principal
from reconciler.quota.results.report import RunOrigin
from reconciler.quota.rule_warnings import NO_SETTINGS
from reconciler.quota.state import QuotaState
from reconciler.reconcile import PreparedPlan, ReconcileOptions, ValidationMode, prepare

COLUMNS: Final = ("user", "client_id", "ip")
"""Possible columns of a file; its first line lists those that it has."""


def read_principals(source: str, paths: Sequence[str] = ()) -> tuple[Principal, ...]:
    """Return the clients of a CSV file, each once; ``-`` is standard input.

    Args:
        paths: The other files of the command: standard input can be only one of them.

    Raises:
        UsageError: It cannot be read, or is invalid; the message has the line.
    """
    if source == "-" and "-" in paths:
        raise UsageError("standard input is either the manifests or the principals, not both")
    try:
        text = sys.stdin.read() if source == "-" else read_text(Path(source))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{source} cannot be read: {error}") from error
    rows = _rows(text.removeprefix("\ufeff"), source)
    head = [name.strip() for name in next(rows, (1, []))[1]]
    if not head or set(head) - set(COLUMNS) or len(set(head)) != len(head):
        raise UsageError(
            f"{source}:1: the first line must list columns; possible are {', '.join(COLUMNS)}",
            hint="user,client_id",
        )
    principals = []
    for line, row in rows:
        if not row:
            continue
        if len(row) != len(head):
            raise UsageError(f"{source}:{line}: {len(row)} fields, not {len(head)}")
        if not any(row):
            raise UsageError(f"{source}:{line}: all fields are empty")
        fields = {name: value or None for name, value in zip(head, row, strict=True)}
        principals.append(Principal(**fields))
    return tuple(dict.fromkeys(principals))


def _rows(text: str, source: str) -> Iterator[tuple[int, list[str]]]:
    """Yield lines with their fields; an empty line has none."""
    rows = csv.reader(io.StringIO(text, newline=""))
    try:
        for row in rows:
            yield rows.line_num, row
    except csv.Error as error:
        raise UsageError(f"{source}:{rows.line_num}: not CSV: {error}") from error


def knowing(task: "PlanTask", principals: Iterable[Principal]) -> "PlanTask":
    """Return the task with these clients added to those assessed."""
    known_principals = tuple(dict.fromkeys((*task.options.known_principals, *principals)))
    return replace(task, options=replace(task.options, known_principals=known_principals))


def reconcile_options(
    target: ClusterTarget, request: PlanRequest, documents: ClusterDocuments | None = None
) -> ReconcileOptions:
    """Return the options of this run: the trusted configuration, tightened or relaxed by typed options.

    Args:
        documents: The documents that were read, if they decide what is written: of some alone only their entities.

    Raises:
        UsageError: ``--policy`` is looser than the configured policy.
    """
    settings = target.settings
    is_complete = documents is None or documents.complete
    return ReconcileOptions(
        rules=settings.rules(
            policy=_policy(target, request.policy),
            drift=DriftMode.CORRECT if request.correct_drift else None,
            complete=is_complete,
            configured=bool(target.project_cluster.manifests),
            removals_known=not request.no_inventory,
            force=request.force,
        ),
        guards=_guards(settings.guards, request),
        expected_cluster_id=settings.expected_cluster_id or request.confirm_sync,
        confirm_sync=request.confirm_sync,
        validation=ValidationMode(request.validate),
        pace=request.pace,
        only=_only(request.only, None if documents is None or is_complete else documents.desired),
        warnings=NO_SETTINGS if target.project is None else target.project.warnings,
        origin=origin_of(target),
    )


def observing_options(target: ClusterTarget) -> ReconcileOptions:
    """Return the options of a run that compares live limits with the records, and writes no limit."""
    return ReconcileOptions(
        rules=target.settings.rules(policy=Policy.OBSERVE, drift=DriftMode.WARN),
        expected_cluster_id=target.settings.expected_cluster_id,
        assess=False,
        origin=origin_of(target),
    )


def _policy(target: ClusterTarget, typed: str | None) -> Policy:
    configured = target.settings.policy
    if typed is None:
        return configured
    policy = Policy(typed)
    if target.project is not None and STRICTNESS.index(policy) > STRICTNESS.index(configured):
        raise UsageError(
            f"--policy {policy} is less strict than {configured}, the policy of {target.name} in {target.project.path}",
            hint="the command line can only tighten the policy; change it in the project file",
        )
    return policy


def _guards(configured: Guards, request: PlanRequest) -> Guards:
    changed: dict[str, Any] = {
        name: value
        for name, value in (
            ("max_removals", request.max_removals),
            ("max_removed_percent", request.max_removed_percent),
            ("max_change_factor", request.max_change_factor),
            ("newly_unlimited", NewlyUnlimited.LIST if request.allow_newly_unlimited else None),
            ("allow_small_values", request.allow_small_values or None),
            ("protect_defaults", False if request.allow_defaults else None),
            ("allow_empty", request.allow_empty or None),
        )
        if value is not None
    }
    return replace(configured, **changed)


def _only(
    entities: tuple[Entity, ...], desired: DesiredState | None
) -> Callable[[Entity, Key], bool] | None:
    """Return the filter of writable pairs: the typed entities, and those of the documents that were read."""
    wanted_entities: frozenset[Entity] | None = frozenset(entities) if entities else None
    if desired is not None:
        declared = frozenset(desired.limits)
        wanted_entities = declared if wanted_entities is None else wanted_entities & declared
    if wanted_entities is None:
        return None
    allowed = wanted_entities
    return lambda subject, _: subject in allowed


def origin_of(target: ClusterTarget) -> RunOrigin:
    """Return who runs this, from which commit ("" without a repository), for which cluster."""
    return RunOrigin(
        author=current_principal(),
        commit=target.reads.once("commit", lambda: _commit(target)),
        cluster=target.name,
        tool_version=__version__,
    )


def _commit(target: ClusterTarget) -> str:
    """Return the commit of the checkout with the manifests; does not run git without a repository."""
    folder = target.root.absolute()
    if not any((folder_path / ".git").exists() for folder_path in (folder, *folder.parents)):
        return ""
    from reconciler.git.repository import Repository

    try:
        repository = Repository.around(folder)
        return repository.commit() if repository.has("HEAD") else ""
    except GitError:
        return ""


class PlanTask(Struct, frozen=True, kw_only=True):
    """Everything that a plan of one cluster needs before a broker is queried."""

    target: ClusterTarget
    desired: DesiredState
    options: ReconcileOptions
    request: PlanRequest


def task_for(notices: Notices, target: ClusterTarget, request: PlanRequest) -> PlanTask:
    """Read documents, and build the options.

    Raises:
        ManifestErrors: A file is invalid, or two documents claim one pair.
        UsageError: Options contradict each other.
    """
    documents = load(target, request.paths, progress=reading(notices))
    for warning in documents.warnings:
        notices.warning(str(warning))
    if target.settings.suspend:
        notices.warning(f"{target.display_name} is suspended (spec.suspend): nothing is written")
    if not request.no_inventory:
        check_records(notices, target)
    options = reconcile_options(target, request, documents)
    return PlanTask(target=target, desired=documents.desired, options=options, request=request)


async def prepare_task(task: PlanTask, runtime: Runtime) -> PreparedPlan:
    """Observe, plan, guard, validate."""
    options = replace(task.options, own_principal=runtime.own_principal)
    return with_configuration(await prepare(runtime.ports, options, task.desired), task)


def with_configuration(prepared: PreparedPlan, task: PlanTask) -> PreparedPlan:
    """Add what only the configuration knows, to a live or an offline plan: findings are those of this run's scope.

    Warnings: the records are those of another project; a typed entity is not declared, recorded or live.
    """
    prepared = limit_findings(prepared, task.options)
    observation, desired = prepared.observation, task.desired
    declared = desired.limits.keys() | {entity for entity, _ in desired.halted}
    warnings = tuple(
        f"--only {entity_text(entity)}: no document, record or live quota has this entity"
        for entity in task.request.only
        if entity not in declared
        and entity not in observation.live.limits
        and entity not in observation.owned.records
    )
    recorded, own = observation.owned.project, task.target.project_cluster.project
    if recorded not in {"", own}:
        warnings += (
            f"the records are those of project {recorded!r}, not of {own!r}: "
            + (
                "this apply takes them over"
                if task.request.take_over
                else "kquota apply is refused without --take-over"
            ),
        )
    preview = prepared.preview
    return replace(prepared, preview=replace(preview, warnings=(*preview.warnings, *warnings)))


def limit_findings(prepared: PreparedPlan, options: ReconcileOptions) -> PreparedPlan:
    """Drop findings of pairs outside of this run's scope (``--only``, typed paths)."""
    only = options.only
    if only is None:
        return prepared
    plan = prepared.plan
    findings = tuple(finding for finding in plan.findings if only(finding.entity, finding.key))
    return replace(
        prepared, preview=replace(prepared.preview, plan=replace(plan, findings=findings))
    )


_FLAGS: Final = {
    Guard.PROTECTED: (
        "--allow-defaults",
        "of default entities, which affect every client without a more specific limit",
    ),
    Guard.BOUNDS_UNIT: ("--allow-small-values", "that look like a wrong unit"),
}


def check_piped(task: PlanTask) -> None:
    """Check that all flags that the documents of standard input need are set, before a cluster is queried.

    ``kquota export | kquota apply -`` reads its documents once, so a refusal after the describe would waste both runs.

    Raises:
        PlanRefused: One is missing; the hint lists all missing flags.
    """
    if STDIN not in task.request.paths:
        return
    plan = compare(
        desired=task.desired,
        owned=OwnershipRecords(cluster_id=""),
        live=QuotaState(),
        rules=Rules(),
    )
    counts = Counter(
        violation.guard for violation in check(plan, task.options.guards, QuotaState())
    )
    missing = [guard for guard in _FLAGS if counts[guard]]
    if missing:
        limits = " and ".join(f"{counts[guard]} limits {_FLAGS[guard][1]}" for guard in missing)
        flags = " ".join(_FLAGS[guard][0] for guard in missing)
        raise PlanRefused(
            f"standard input declares {limits}; the cluster was not contacted",
            hint=f"if this is intended, add {flags}",
        )
