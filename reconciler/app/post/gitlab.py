"""``kquota post gitlab``: writes reports for GitLab's widgets, and posts a note or an issue."""

import hashlib
import json
from pathlib import Path
from typing import Final

from reconciler import __version__
from reconciler.app.notices import TextReceiver
from reconciler.app.post.content import PostContent
from reconciler.app.post.threads import token_of, update_comment, update_incident
from reconciler.base.clock import SystemClock
from reconciler.base.escaping import escaped
from reconciler.base.text_files import write_text
from reconciler.errors import UsageError
from reconciler.forge import gitlab as host
from reconciler.forge.rest_client import RestClient
from reconciler.render.cause_text import counts
from reconciler.render.source_findings import RULES, plan_findings

TOKEN: Final = "GITLAB_TOKEN"  # noqa: S105 - the name of a variable

_SEVERITIES: Final = {"error": "critical", "warning": "minor", "note": "info"}


def open_client(api_url: str) -> RestClient:
    """Return a client with the token of the environment."""
    return host.gitlab(api_url, token_of(TOKEN), clock=SystemClock(), version=__version__)


def write_reports(content: PostContent, *, terraform: Path | None, quality: Path | None) -> None:
    """Write the files of ``artifacts: reports: terraform`` and ``codequality``.

    Raises:
        UsageError: The document is not a plan, or a file cannot be written.
    """
    if terraform is None and quality is None:
        return
    if content.preview is None:
        raise UsageError("widget reports need a plan")
    if terraform is not None:
        numbers = counts(content.preview)
        report = {
            "create": numbers["create"],
            "update": numbers["update"],
            "delete": numbers["remove"],
        }
        write_text(terraform, json.dumps(report) + "\n")
    if quality is not None:
        write_text(quality, json.dumps(_quality(content), indent=1) + "\n")


def _quality(content: PostContent) -> list[dict[str, object]]:
    """Return the findings with a path in GitLab's subset of the Code Climate format, which requires one."""
    assert content.preview is not None  # noqa: S101 - checked by the caller
    entries: list[dict[str, object]] = []
    for finding in plan_findings(content.preview, content.recorded):
        if not finding.path:
            continue
        facts = f"{content.request.label}\n{finding.rule}\n{finding.path}\n{finding.message}"
        entries.append(
            {
                "description": escaped(finding.message),
                "check_name": f"kquota-{finding.rule}",
                "fingerprint": hashlib.sha256(facts.encode("utf-8", "surrogatepass")).hexdigest(),
                "severity": _SEVERITIES[RULES[finding.rule]],
                "location": {"path": finding.path, "lines": {"begin": max(finding.line, 1)}},
            }
        )
    return entries


async def post_to_gitlab(
    notices: TextReceiver, content: PostContent, project: str, merge_request: int | None, sha: str
) -> None:
    """Write the note or the issue."""
    wants_note = merge_request is not None and content.request.method != "never"
    if content.incident is None and not wants_note:
        return
    async with open_client(content.request.api_url) as client:
        project_api = host.GitLab(client, project)
        if content.incident is not None:
            _ = await update_incident(notices, content, project_api, limit=host.NOTE_CHARACTERS)
        elif merge_request is not None:
            if sha:
                await project_api.check_merge_request(merge_request, sha)
            _ = await update_comment(
                notices,
                content,
                project_api.comments_of(merge_request),
                name=f"merge request {merge_request}: note",
                limit=host.NOTE_CHARACTERS,
            )
