"""What ``kquota post`` says: one document read, checked and made into a text of the right length for its host."""

import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from reconciler import foreign_json
from reconciler.cli.files import MAX_BYTES, read_text
from reconciler.cli.post_options import Post
from reconciler.cli.showing import recorded_of
from reconciler.errors import ConfigError, ForgeError, UsageError
from reconciler.forge.marker import Kind, Marker, with_state
from reconciler.quota.report import Preview
from reconciler.render import drift_issue, failure, json_outcome, json_plan
from reconciler.render.comment import CommentContext
from reconciler.render.json_plan import counts
from reconciler.render.markdown import outcome_markdown, plan_markdown
from reconciler.render.read_outcome import read_outcome
from reconciler.render.read_preview import read_preview, read_simulation
from reconciler.render.recorded import Recorded

MAX_FOREIGN_BYTES: Final = 5 * 1024 * 1024
"""Largest document that another run made: the privileged half of a workflow for forks reads what a stranger wrote."""

T = TypeVar("T")

_URL: Final = re.compile(r"https?://[A-Za-z0-9._~:/?#@!$&'*+,;=%-]{1,2000}")


Body = Callable[[int, int], str]
"""``body(limit, most)``: a text of at most ``limit`` characters with a table of at most ``most`` rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Drift, as an issue."""

    title: str
    body: Callable[[int], str]
    recovered: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """What is to be told.

    Attributes:
        wanted: As it was typed.
        marker: Which comment or issue it is.
        body: The whole text.
        is_quiet: Whether there is nothing to say.
        outputs: Facts for the next step, all of them text.
        preview: The plan, where it is one.
        recorded: What recorded use said to it.
        incident: The issue, where it is drift.
    """

    wanted: Post
    marker: Marker
    body: Body
    is_quiet: bool
    outputs: Mapping[str, str]
    preview: Preview | None = None
    recorded: Recorded | None = None
    incident: Incident | None = None


def run_told(work: Coroutine[Any, Any, T]) -> T:
    """The result of talking to a host.

    Raises:
        ForgeError: The host refuses.
    """
    from reconciler.cli.running import run

    return run(work)


def letter_of(wanted: Post, *, foreign: bool = False, untrusted: str = "") -> Letter:
    """Read the document and say what it is.

    Args:
        wanted: As it was typed.
        foreign: Whether another run made the document.
        untrusted: The fork whose run made the document; "" = our own repository.

    Raises:
        ConfigError: It is cut off, edited or none of ours.
        StalePlan: Another version made it.
        UsageError: It cannot be read, or options do not fit it.
    """
    _link(wanted.details_url)
    where = str(wanted.document)
    text = read_text(wanted.document, most=MAX_FOREIGN_BYTES if foreign else MAX_BYTES)
    if wanted.failed is not None:
        marker = Marker(kind="plan", label=wanted.label)
        failed = failure.failed_plan(wanted.failed, text)
        if untrusted:
            failed = failure.from_fork(failed, untrusted)
        return _failure_letter(wanted, failed, marker)
    makers: Mapping[str, tuple[Kind, Callable[[Post, str, str, Marker], Letter]]] = {
        json_plan.KIND: ("plan", _plan),
        json_outcome.KIND: ("outcome", _outcome),
        drift_issue.KIND: ("drift", _drift),
        failure.KIND: ("plan", _failure),
    }
    found = _kind_of(text, where)
    if found not in makers:
        raise ConfigError(
            "this is no plan, outcome or report of drift",
            where=where,
            hint="it is what `plan --out`, `apply --out` or `drift --format json` wrote; several clusters are told one by one",
        )
    kind, make = makers[found]
    if wanted.issue and kind != "drift":
        raise UsageError("--issue is about drift; this document is none")
    marker = Marker(kind=kind, label=wanted.label)
    if untrusted:
        return _foreign(wanted, text, where, marker, fork=untrusted)
    return make(wanted, text, where, marker)


def _kind_of(text: str, where: str) -> str:
    """What kind of document it says to be; whether it is one, its strict reader decides.

    Raises:
        ConfigError: It is no whole JSON document.
    """
    try:
        top = foreign_json.parse(text, most_bytes=foreign_json.DOCUMENT)
    except foreign_json.UnreadableJson as error:
        raise ConfigError(
            f"no whole JSON document ({error})",
            where=where,
            hint="it was cut off or edited; make it anew",
        ) from error
    return str(top.get("kind", "")) if isinstance(top, dict) else ""


def _foreign(wanted: Post, text: str, where: str, marker: Marker, *, fork: str) -> Letter:
    """What a run of a fork may have posted: a plan, or that planning failed; each says where it comes from.

    Raises:
        ConfigError: It is something else. Outcomes and drift are facts about a cluster, which no fork has access to.
    """
    kind = _kind_of(text, where)
    if kind == json_plan.KIND:
        made = _plan(wanted, text, where, marker)
        assert made.preview is not None  # noqa: S101 - it is a plan
        # A page that a fork built may hold any script, so the comment does not link to it.
        bare = replace(wanted, artifact_url="")
        return _plan_letter(bare, _distrusted(made.preview, fork), marker, made.recorded)
    if kind == failure.KIND:
        failed = failure.read_failure(text, where=where)
        if failed.command == "plan":
            return _failure_letter(wanted, failure.from_fork(failed, fork), marker)
    raise ConfigError(
        f"a run of the fork {fork} may only post a plan or that planning failed",
        where=where,
        hint="an apply, a rollback or a look for drift posts its result from the repository itself",
    )


def _distrusted(preview: Preview, fork: str) -> Preview:
    """The same with a warning: whoever made it may have written what they like about the cluster."""
    warning = f"made by a run of the fork {fork}, so what it says about the cluster and the broker was not verified"
    return replace(preview, warnings=(warning, *preview.warnings))


# ---- one maker per kind ------------------------------------------------------------------------


def _plan(wanted: Post, text: str, where: str, marker: Marker) -> Letter:
    preview = read_preview(text, where=where)
    recorded = recorded_of(read_simulation(text, where=where), preview)
    return _plan_letter(wanted, preview, marker, recorded)


def _plan_letter(
    wanted: Post, preview: Preview, marker: Marker, recorded: Recorded | None
) -> Letter:
    context = _context(wanted, marker)

    def body(limit: int, most: int) -> str:
        text = plan_markdown(preview, limit=limit, most=most, context=context, recorded=recorded)
        return _within(text, limit, marker)

    numbers = counts(preview)
    quiet = not (
        preview.plan.changes
        or preview.plan.drift
        or preview.violations
        or preview.warnings
        or preview.errored
    )
    outputs = {name: str(numbers[name]) for name in ("create", "update", "remove", "violations")}
    outputs |= {
        "drift": str(len(preview.plan.drift)),
        "has-changes": str(bool(preview.plan.changes)).lower(),
        "applyable": str(preview.applyable).lower(),
        "errored": str(preview.errored).lower(),
        "digest": preview.plan.digest,
        "cluster-id": preview.plan.cluster_id,
        "refused-by-use": "0" if recorded is None else str(len(recorded.refusals)),
    }
    return Letter(
        wanted=wanted,
        marker=marker,
        body=body,
        is_quiet=quiet,
        outputs=outputs,
        preview=preview,
        recorded=recorded,
    )


def _outcome(wanted: Post, text: str, where: str, marker: Marker) -> Letter:
    outcome = read_outcome(text, where=where)

    context = _context(wanted, marker)

    def body(limit: int, most: int) -> str:
        return _within(
            outcome_markdown(outcome, limit=limit, most=most, context=context), limit, marker
        )

    outputs = {
        "complete": str(outcome.complete).lower(),
        "applied": str(outcome.count("APPLIED")),
        "digest": outcome.digest,
    }
    return Letter(
        wanted=wanted, marker=marker, body=body, is_quiet=not outcome.pairs, outputs=outputs
    )


def _drift(wanted: Post, text: str, where: str, marker: Marker) -> Letter:
    report = drift_issue.read_drift(text, where=where)
    details = _link(wanted.details_url)
    head = with_state(marker, report.facts)

    def body(limit: int, _most: int = 0) -> str:
        made = drift_issue.issue_markdown(
            report, head=head, limit_characters=limit, details=details
        )
        return _within(made, limit, marker)

    incident = Incident(
        title=wanted.title or drift_issue.issue_title(wanted.label, report),
        body=body,
        recovered=None if report.rows else drift_issue.recovered_markdown(report, details=details),
    )
    found = len(report.rows)
    outputs = {"drift": str(found), "has-drift": str(bool(found)).lower()}
    return Letter(
        wanted=wanted,
        marker=marker,
        body=body,
        is_quiet=not found,
        outputs=outputs,
        incident=incident if wanted.issue else None,
    )


def _failure(wanted: Post, text: str, where: str, marker: Marker) -> Letter:
    found = failure.read_failure(text, where=where)
    if found.command == "apply":
        marker = Marker(kind="outcome", label=wanted.label)
    return _failure_letter(wanted, found, marker)


def _failure_letter(wanted: Post, found: failure.Failure, marker: Marker) -> Letter:
    details = _link(wanted.details_url)

    def body(limit: int, _most: int = 0) -> str:
        made = failure.failure_markdown(
            found,
            limit=limit,
            title=wanted.title or _titled(wanted.label),
            marker=marker.line,
            details=details,
        )
        return _within(made, limit, marker)

    return Letter(wanted=wanted, marker=marker, body=body, is_quiet=False, outputs={})


# ---- texts -------------------------------------------------------------------------------------


def _titled(label: str) -> str:
    return f"Kafka quotas: {label}" if label else "Kafka quotas"


def _link(url: str) -> str:
    """A Markdown link; "" without an address.

    Raises:
        UsageError: The address could break out of the link.
    """
    return f"[The run]({address}) has all of it." if (address := _address(url)) else ""


def _address(url: str, option: str = "--details-url") -> str:
    """An address that cannot break out of a Markdown link; "" stays "".

    Raises:
        UsageError: It could.
    """
    if url and not _URL.fullmatch(url):
        raise UsageError(f"{url!r} is not a plain web address", hint=f"{option} https://...")
    return url


def _context(wanted: Post, marker: Marker) -> CommentContext:
    """What surrounds a comment, as it was typed.

    Raises:
        UsageError: An address could break out of its link.
    """
    return CommentContext(
        label=wanted.label,
        title=wanted.title,
        marker=marker.line,
        commit=wanted.commit,
        run_url=_address(wanted.details_url, "--details-url"),
        artifact_url=_address(wanted.artifact_url, "--artifact-url"),
        file=wanted.document.name,
    )


def _within(text: str, limit: int, marker: Marker) -> str:
    """The text, or where even its first lines are too long a sentence in its place."""
    if len(text) <= limit:
        return text
    return (
        f"{marker.line}\n**This is too long to be shown here.** The JSON document has all of it.\n"
    )


def token_of(variable: str) -> str:
    """The token from the environment.

    Raises:
        ForgeError: There is none, as in the pipeline of a fork.
    """
    import os

    text = os.environ.get(variable, "")
    if not text.strip():
        raise ForgeError(
            f"{variable} is not set", hint=f"the token comes from {variable} and nowhere else"
        )
    return text
