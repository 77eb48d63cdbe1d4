"""``kquota post gitlab``: reports for GitLab's own widgets, then note or issue."""

import hashlib
import json
from pathlib import Path
from typing import Final

from reconciler import __version__
from reconciler.cli.console import Console
from reconciler.cli.files import write_text
from reconciler.cli.posting import Letter, token_of
from reconciler.client.clock import SystemClock
from reconciler.errors import UsageError
from reconciler.forge import gitlab as host
from reconciler.forge.token import Token
from reconciler.render.comment import MOST_ROWS
from reconciler.render.json_plan import counts
from reconciler.render.names import escaped
from reconciler.render.sarif import RULES, plan_findings

TOKEN: Final = "GITLAB_TOKEN"  # noqa: S105 - the name of a variable

_SEVERITIES: Final = {"error": "critical", "warning": "minor", "note": "info"}


def write_reports(letter: Letter, *, terraform: Path | None, quality: Path | None) -> None:
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


def _quality(letter: Letter) -> list[dict[str, object]]:
    """Remarks in GitLab's subset of the Code Climate format; it takes none without a place."""
    assert letter.preview is not None  # noqa: S101 - the caller looked
    made: list[dict[str, object]] = []
    for one in plan_findings(letter.preview, letter.recorded):
        if not one.path:
            continue
        facts = f"{letter.wanted.label}\n{one.rule}\n{one.path}\n{one.message}"
        made.append(
            {
                "description": escaped(one.message),
                "check_name": f"kquota-{one.rule}",
                "fingerprint": hashlib.sha256(facts.encode("utf-8", "surrogatepass")).hexdigest(),
                "severity": _SEVERITIES[RULES[one.rule][0]],
                "location": {"path": one.path, "lines": {"begin": max(one.line, 1)}},
            }
        )
    return made


async def told(
    console: Console, letter: Letter, project: str, merge_request: int | None, sha: str
) -> None:
    """Note or issue.

    Raises:
        ForgeError: The host refuses.
    """
    wants_note = merge_request is not None and letter.wanted.method != "never"
    if letter.incident is None and not wants_note:
        return
    token = Token(token_of(TOKEN))
    async with host.gitlab(
        letter.wanted.api_url, token, clock=SystemClock(), version=__version__
    ) as rest:
        here = host.GitLab(rest, project)
        if letter.incident is not None:
            await _issue(console, letter, here)
        elif merge_request is not None:
            if sha:
                await here.check_merge_request(merge_request, sha)
            await _note(console, letter, here, merge_request)


async def _note(console: Console, letter: Letter, here: host.GitLab, number: int) -> None:
    from reconciler.forge.sticky import post

    made = await post(
        host.MergeRequestNotes(here, number),
        letter.marker,
        letter.body(host.NOTE_CHARACTERS, MOST_ROWS),
        method=letter.wanted.method,
        is_quiet=letter.is_quiet,
    )
    console.note(f"merge request {number}: note {made.deed}")


async def _issue(console: Console, letter: Letter, here: host.GitLab) -> None:
    from reconciler.forge.incident import tell

    assert letter.incident is not None  # noqa: S101 - told() looked
    made = await tell(
        here,
        letter.marker,
        title=letter.incident.title,
        body=letter.incident.body(host.NOTE_CHARACTERS),
        recovered=letter.incident.recovered,
    )
    console.note(f"issue about drift: {made.deed}")
