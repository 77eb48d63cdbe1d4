"""Reads and checks the document of ``kquota post``, and renders it within the length limit of the code host."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reconciler.app.change.evidence import recorded_use
from reconciler.app.requests import PostRequest
from reconciler.base.text_files import MAX_BYTES, read_text
from reconciler.codecs import drift as drift_codec
from reconciler.codecs import fleet_plans as fleet_plans_codec
from reconciler.codecs import outcome as outcome_codec
from reconciler.codecs import plan_file as plan_codec
from reconciler.codecs.outcome import read_outcome
from reconciler.codecs.plan import read_plan, read_simulation
from reconciler.codecs.reader import kind_of, typed
from reconciler.errors import ConfigError, Problem, UsageError
from reconciler.forge.sticky_comment import Kind, Marker, with_state
from reconciler.quota.results.report import Preview
from reconciler.render.cause_text import counts
from reconciler.render.markdown import drift_issue
from reconciler.render.markdown.comment import CommentContext
from reconciler.render.markdown.fleet import PostedFleet, PostedPlan, fleet_markdown
from reconciler.render.markdown.outcome import (
    FAILURE_KIND,
    CommandFailure,
    failure_markdown,
    outcome_markdown,
)
from reconciler.render.markdown.plan import plan_markdown
from reconciler.render.recorded_use import RecordedUse

MAX_FOREIGN_BYTES: Final = 5 * 1024 * 1024
"""Maximum size of a document of another run: the privileged part of a workflow for forks reads untrusted files."""

_URL: Final = re.compile(r"https?://[A-Za-z0-9._~:/?#@!$&'*+,;=%-]{1,2000}")


Body = Callable[[int, int], str]
"""``body(limit, most)``: a text of at most ``limit`` characters with a table of at most ``most`` rows."""


class DriftIssue(Struct, frozen=True, kw_only=True):
    """The issue about drift."""

    title: str
    body: Callable[[int], str]
    recovered: str | None
    is_known: bool  # whether the report says if there is drift


class PostContent(Struct, frozen=True, kw_only=True):
    """The content to post."""

    request: PostRequest
    marker: Marker
    body: Body
    outputs: Mapping[str, str]  # outputs for the next CI step, as text
    preview: Preview | None = None
    recorded: RecordedUse | None = None
    problems: tuple[Problem, ...] = ()  # problems in files, if the command failed
    incident: DriftIssue | None = None  # the issue, if the document is drift and `--issue` is set


def content_of(request: PostRequest, *, untrusted: str = "") -> PostContent:
    """Read the document and return its content.

    Args:
        untrusted: The fork whose run wrote the document; "" = the repository itself.

    Raises:
        ConfigError: It is truncated, edited or of an unknown kind.
        StalePlan: Another version wrote it.
        UsageError: It cannot be read, or an option does not apply to it.
    """
    _ = _address(request.details_url)
    location = str(request.document)
    text = read_text(
        request.document, max_bytes=MAX_FOREIGN_BYTES if request.head_repo else MAX_BYTES
    )
    readers: Mapping[str, tuple[Kind, Callable[[PostRequest, str, str, Marker], PostContent]]] = {
        plan_codec.KIND: ("plan", _plan),
        outcome_codec.KIND: ("outcome", _outcome),
        drift_codec.KIND: ("drift", _drift),
        FAILURE_KIND: ("plan", _failure),
        fleet_plans_codec.KIND: ("plan", _plans),
    }
    document_kind = kind_of(text, location)
    if document_kind not in readers:
        raise ConfigError(
            "the document is not a plan, outcome or drift report",
            location=location,
            hint="expected: the file of `plan --out`, `plan --all --out`, `apply --out` or `drift --format json`",
        )
    kind, make = readers[document_kind]
    if request.issue and kind != "drift":
        raise UsageError("--issue needs a drift report")
    marker = Marker(kind=kind, label=request.label)
    if untrusted:
        return _foreign(request, text, location, marker, fork=untrusted)
    return make(request, text, location, marker)


def _foreign(
    request: PostRequest, text: str, location: str, marker: Marker, *, fork: str
) -> PostContent:
    """Return the content of a document from a run of a fork: a plan or a failed plan, marked with the fork.

    Outcomes and drift come from a cluster, to which no fork has access.

    Raises:
        ConfigError: It is another document.
    """
    kind = kind_of(text, location)
    if kind == plan_codec.KIND:
        # A page from a fork may contain any script, so the comment does not link to it.
        return _plan(replace(request, artifact_url=""), text, location, marker, fork=fork)
    if kind == FAILURE_KIND:
        failed = _read_failure(text, location)
        if failed.command == "plan":
            return _failure_content(request, failed, marker, fork=fork)
    raise ConfigError(
        f"a run of the fork {fork} can only post a plan or a failed plan",
        location=location,
        hint="apply, rollback and drift results must be posted by runs of the repository itself",
    )


# ---- one function per kind ---------------------------------------------------------------------


def _plan(
    request: PostRequest, text: str, location: str, marker: Marker, *, fork: str = ""
) -> PostContent:
    preview = read_plan(text, location=location)
    recorded = recorded_use(read_simulation(text, location=location), preview)
    context = replace(_context(request, marker), fork=fork)

    def body(limit: int, max_rows: int) -> str:
        text = plan_markdown(
            preview, limit=limit, max_rows=max_rows, context=context, recorded=recorded
        )
        return _within(text, limit, marker)

    numbers = counts(preview)
    outputs = {name: str(numbers[name]) for name in ("create", "update", "remove", "violations")}
    outputs |= {
        "drift": str(len(preview.plan.drift)),
        "has-changes": str(bool(preview.plan.changes)).lower(),
        "applyable": str(preview.applyable).lower(),
        "errored": str(preview.errored).lower(),
        "digest": preview.digest,
        "cluster-id": preview.plan.cluster_id,
        "refused-by-use": "0" if recorded is None else str(len(recorded.refusals)),
    }
    return PostContent(
        request=request,
        marker=marker,
        body=body,
        outputs=outputs,
        preview=preview,
        recorded=recorded,
    )


def _plans(request: PostRequest, text: str, location: str, marker: Marker) -> PostContent:
    rows, plans = fleet_plans_codec.read_plans(text, location=location)
    fleet = PostedFleet(
        rows=rows,
        plans=tuple(
            PostedPlan(
                cluster=plan.cluster,
                preview=plan.preview,
                recorded=recorded_use(plan.simulation, plan.preview),
            )
            for plan in plans
        ),
    )
    context = _context(request, marker)

    def body(limit: int, max_rows: int) -> str:
        comment = fleet_markdown(fleet, limit=limit, max_rows=max_rows, context=context)
        return _within(comment, limit, marker)

    return PostContent(request=request, marker=marker, body=body, outputs=fleet.outputs)


def _outcome(request: PostRequest, text: str, location: str, marker: Marker) -> PostContent:
    outcome = read_outcome(text, location=location)

    context = _context(request, marker)

    def body(limit: int, max_rows: int) -> str:
        return _within(
            outcome_markdown(outcome, limit=limit, max_rows=max_rows, context=context),
            limit,
            marker,
        )

    outputs = {
        "complete": str(outcome.complete).lower(),
        "applied": str(outcome.count("APPLIED")),
        "digest": outcome.digest,
    }
    return PostContent(request=request, marker=marker, body=body, outputs=outputs)


def _drift(request: PostRequest, text: str, location: str, marker: Marker) -> PostContent:
    report = drift_codec.read_drift(text, location=location)
    finding_count = len(report.findings) + len(report.expired_overrides)
    details = run_link(request.details_url)
    head = with_state(marker, report.facts)

    def body(limit: int, _max_rows: int = 0) -> str:
        markdown = drift_issue.issue_markdown(
            report, head=head, limit_characters=limit, details=details
        )
        return _within(markdown, limit, marker)

    incident = DriftIssue(
        title=request.title or drift_issue.issue_title(request.label, report),
        body=body,
        recovered=None
        if finding_count
        else drift_issue.recovered_markdown(report, details=details),
        is_known=report.is_known,
    )
    outputs = {"drift": str(finding_count), "has-drift": str(bool(finding_count)).lower()}
    return PostContent(
        request=request,
        marker=marker,
        body=body,
        outputs=outputs,
        incident=incident if request.issue else None,
    )


def _read_failure(text: str, location: str) -> CommandFailure:
    return typed(text, CommandFailure, format_version=1, location=location)


def _failure(request: PostRequest, text: str, location: str, marker: Marker) -> PostContent:
    run_failure = _read_failure(text, location)
    if run_failure.command == "apply":
        marker = Marker(kind="outcome", label=request.label)
    return _failure_content(request, run_failure, marker)


def _failure_content(
    request: PostRequest, run_failure: CommandFailure, marker: Marker, *, fork: str = ""
) -> PostContent:
    details = run_link(request.details_url)

    def body(limit: int, _max_rows: int = 0) -> str:
        markdown = failure_markdown(
            run_failure,
            limit=limit,
            title=request.title or _title(request.label),
            marker=marker.line,
            details=details,
            fork=fork,
        )
        return _within(markdown, limit, marker)

    return PostContent(
        request=request,
        marker=marker,
        body=body,
        outputs={},
        problems=run_failure.problems,
    )


# ---- texts -------------------------------------------------------------------------------------


def _title(label: str) -> str:
    return f"Kafka quotas: {label}" if label else "Kafka quotas"


def run_link(url: str) -> str:
    """Return a Markdown link; "" without a URL.

    Raises:
        UsageError: The URL could end the link.
    """
    return f"[The run]({address}) has the full output." if (address := _address(url)) else ""


def _address(url: str, option: str = "--details-url") -> str:
    """Check that a URL cannot end a Markdown link; "" stays "".

    Raises:
        UsageError: It could end the link.
    """
    if url and not _URL.fullmatch(url):
        raise UsageError(f"{url!r} is not a plain web address", hint=f"{option} https://...")
    return url


def _context(request: PostRequest, marker: Marker) -> CommentContext:
    """Return label, title, marker and links of a comment from the typed options.

    Raises:
        UsageError: A URL could end its link.
    """
    return CommentContext(
        label=request.label,
        title=request.title,
        marker=marker.line,
        commit=request.commit,
        run_url=_address(request.details_url, "--details-url"),
        artifact_url=_address(request.artifact_url, "--artifact-url"),
        file=request.document.name,
    )


def _within(text: str, limit: int, marker: Marker) -> str:
    """Return the text, or a short notice if the text exceeds the limit."""
    if len(text) <= limit:
        return text
    return f"{marker.line}\n**Too long to show here.** See the JSON document.\n"
