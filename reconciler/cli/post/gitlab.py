"""``kquota post gitlab``: reports for GitLab's own widgets, then note or issue."""

import hashlib
import json
from pathlib import Path
from typing import Final

from reconciler import __version__
from reconciler.base.clock import SystemClock
from reconciler.base.escaping import escaped
from reconciler.base.text_files import write_text
from reconciler.cli.framework.console import Console
from reconciler.cli.post.comment import PostContent, token_of
from reconciler.errors import UsageError
from reconciler.forge import gitlab as host
from reconciler.forge.token import forge_token
from reconciler.render.cause_text import counts
from reconciler.render.markdown.comment import MOST_ROWS
from reconciler.render.sarif import RULES, plan_findings

TOKEN: Final = "GITLAB_TOKEN"  # noqa: S105 - the name of a variable

_SEVERITIES: Final = {"error": "critical", "warning": "minor", "note": "info"}


def write_reports(letter: PostContent, *, terraform: Path | None, quality: Path | None) -> None:
    """Files for ``artifacts: reports: terraform`` and ``codequality``.

    Raises:
        UsageError: The document is no plan, or a file cannot be written.
    """
    if terraform is None and quality is None:
        return
    if letter.preview is None:
        raise UsageError("reports for widgets are made of plans")
    if terraform is not None:
        numbers = counts(letter.preview)
        report = {
            "create": numbers["create"],
            "update": numbers["update"],
            "delete": numbers["remove"],
        }
        write_text(terraform, json.dumps(report) + "\n")
    if quality is not None:
        write_text(quality, json.dumps(_quality(letter), indent=1) + "\n")


def _quality(letter: PostContent) -> list[dict[str, object]]:
    """Remarks in GitLab's subset of the Code Climate format; it takes none without a place."""
    assert letter.preview is not None  # noqa: S101 - the caller looked
    entries: list[dict[str, object]] = []
    for finding in plan_findings(letter.preview, letter.recorded):
        if not finding.path:
            continue
        facts = f"{letter.options.label}\n{finding.rule}\n{finding.path}\n{finding.message}"
        entries.append(
            {
                "description": escaped(finding.message),
                "check_name": f"kquota-{finding.rule}",
                "fingerprint": hashlib.sha256(facts.encode("utf-8", "surrogatepass")).hexdigest(),
                "severity": _SEVERITIES[RULES[finding.rule][0]],
                "location": {"path": finding.path, "lines": {"begin": max(finding.line, 1)}},
            }
        )
    return entries


async def post_to_gitlab(
    console: Console, letter: PostContent, project: str, merge_request: int | None, sha: str
) -> None:
    """Note or issue.

    Raises:
        ForgeError: The host refuses.
    """
    wants_note = merge_request is not None and letter.options.method != "never"
    if letter.incident is None and not wants_note:
        return
    token = forge_token(token_of(TOKEN))
    async with host.gitlab(
        letter.options.api_url, token, clock=SystemClock(), version=__version__
    ) as client:
        project_api = host.GitLab(client, project)
        if letter.incident is not None:
            await _issue(console, letter, project_api)
        elif merge_request is not None:
            if sha:
                await project_api.check_merge_request(merge_request, sha)
            await _note(console, letter, project_api, merge_request)


async def _note(
    console: Console, letter: PostContent, project_api: host.GitLab, number: int
) -> None:
    from reconciler.forge.sticky_comment import post

    comment = await post(
        host.MergeRequestNotes(project_api, number),
        letter.marker,
        letter.body(host.NOTE_CHARACTERS, MOST_ROWS),
        method=letter.options.method,
        is_quiet=letter.is_quiet,
    )
    console.note(f"merge request {number}: note {comment.deed}")


async def _issue(console: Console, letter: PostContent, project_api: host.GitLab) -> None:
    from reconciler.forge.drift_issue import update_issue

    assert letter.incident is not None  # noqa: S101 - checked before
    issue = await update_issue(
        project_api,
        letter.marker,
        title=letter.incident.title,
        body=letter.incident.body(host.NOTE_CHARACTERS),
        recovered=letter.incident.recovered,
    )
    console.note(f"issue about drift: {issue.deed}")
