"""Outcome files of applies, which ``kquota rollback`` reads.

An outcome is written before the first request, as if the run ended there, and replaced at the end of the run, so that
a killed run can be undone.
"""

from pathlib import Path
from typing import Final

from reconciler.app.clusters.state_files import own_path
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.notices import TextReceiver
from reconciler.base.text_files import write_text
from reconciler.codecs.outcome import outcome_text
from reconciler.errors import KquotaError
from reconciler.quota.results.report import Outcome
from reconciler.render.units import instant

FOLDER: Final = ".kquota/outcomes"
KEPT: Final = 50
"""Maximum number of outcomes per cluster; older ones are deleted."""

_TIME: Final = "????-??-??T??????Z"
"""Prefix of the name of an outcome, as a glob."""


def keep_outcome(
    notices: TextReceiver, target: ClusterTarget, outcome: Outcome, outcome_path: Path | None
) -> Path | None:
    """Write an outcome that changes something; return ``None`` with a warning if it could not be written.

    Args:
        notices: Receives the warning.
        target: The cluster.
        outcome: The outcome of an apply.
        outcome_path: The file; ``None`` = a folder below the project's, named by time and cluster.
    """
    if outcome_path is None and not outcome.pairs:
        return None
    try:
        path = outcome_path or _own_place(target, outcome)
        if outcome_path is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                _forget_old(path)
        write_text(path, outcome_text(outcome), private=True)
    except (OSError, KquotaError) as error:
        notices.warning(f"the outcome could not be kept: {error}")
        return None
    return path


def _own_place(target: ClusterTarget, outcome: Outcome) -> Path:
    when = instant(outcome.started_at).replace(":", "")
    name = f"{FOLDER}/{when}-{target.name or 'cluster'}.json"
    return own_path(target.root, name, content_name="outcomes")


def _forget_old(path: Path) -> None:
    """Delete the oldest outcomes of the same cluster, so that one more can be written."""
    cluster = path.name[len(_TIME) :]
    for old in sorted(path.parent.glob(f"{_TIME}{cluster}"))[: -KEPT + 1]:
        old.unlink(missing_ok=True)
