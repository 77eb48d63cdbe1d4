"""``kquota history``: lists the outcomes that ``kquota rollback`` can undo."""

import shlex
from pathlib import Path
from typing import Final

import click
from msgspec.structs import replace

from reconciler.app.change.outcome_files import saved_outcomes
from reconciler.app.clusters.project_files import project_path
from reconciler.app.clusters.targets import targets
from reconciler.app.requests import TargetRequest
from reconciler.base.escaping import escaped
from reconciler.base.text_files import read_text
from reconciler.cli.framework.commands import ExitCode, command
from reconciler.cli.framework.console import Console
from reconciler.cli.options.shared import where_options
from reconciler.codecs.outcome import read_outcome
from reconciler.errors import KquotaError
from reconciler.render.table import table
from reconciler.render.units import instant

HELP: Final = """List the outcomes of applies, overrides and rollbacks from this folder, the newest first.

The last 50 of each cluster are kept. kquota rollback restores the limits from before one of them.

\b
Example:
  kquota history
  kquota history --cluster prod"""


@command(help=HELP)
@where_options(many=False, contacts=False)
@click.pass_obj
def history(console: Console, *, where: TargetRequest) -> ExitCode:
    """Read the outcomes of the project's folder, and print a table."""
    paths = saved_outcomes(project_path(where).parent, where.cluster or "")
    rows = [_row(path) for path in paths]
    if not rows:
        if where.project is not None or where.cluster is not None:
            # A mistyped name has no outcome either.
            _ = targets(replace(where, every=where.cluster is None))
        whose = "" if where.cluster is None else f" of {escaped(where.cluster)}"
        console.note(f"no outcomes: no limit{whose} was changed from this folder")
        return ExitCode.DONE
    console.fact(
        "\n".join(
            table(
                rows,
                heads=("started", "command", "cluster", "changes", "by", "outcome"),
                style=console.style,
            )
        )
        + "\n"
    )
    place_options = {"--project": where.project, "--cluster": where.cluster}.items()
    words = (
        "kquota",
        "rollback",
        *(str(word) for pair in place_options if pair[1] for word in pair),
    )
    undo = escaped(shlex.join(words))
    console.hint(f"to undo one: {undo} OUTCOME; the newest: {undo} --last")
    return ExitCode.DONE


def _row(path: Path) -> tuple[str, ...]:
    name = escaped(str(path))
    try:
        outcome = read_outcome(read_text(path), location=str(path))
    except KquotaError:
        return "cannot be read", "", "", "", "", name
    origin = outcome.origin
    unknown = f", {many:,} unknown" if (many := outcome.count("UNKNOWN")) else ""
    applied = f"{outcome.count('APPLIED'):,} of {len(outcome.pairs):,} applied{unknown}"
    texts = origin.command, origin.cluster or outcome.cluster_id, applied, origin.author
    return instant(outcome.started_at), *map(escaped, texts), name
