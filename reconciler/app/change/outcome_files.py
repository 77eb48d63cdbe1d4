"""Outcome files of applies, which ``kquota rollback`` reads.

An outcome is written before the first request, as if the run ended there, and replaced at the end of the run, so that
a killed run can be undone.
"""

import contextlib
import itertools
from pathlib import Path
from typing import Final

from reconciler.app.clusters.state_files import own_path
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.notices import TextReceiver
from reconciler.base.durable_files import PRIVATE
from reconciler.base.text_files import write_text
from reconciler.codecs.outcome import OutcomeWriter
from reconciler.errors import KquotaError
from reconciler.quota.results.report import Outcome
from reconciler.render.units import instant

FOLDER: Final = ".kquota/outcomes"
KEPT: Final = 50
"""Maximum number of outcomes per cluster; older ones are deleted."""

_TIME: Final = "????-??-??T??????Z"
"""Prefix of the name of an outcome, as a glob."""


def keep_outcome(
    notices: TextReceiver,
    target: ClusterTarget,
    outcome: Outcome,
    outcome_path: Path | None,
    writer: OutcomeWriter,
) -> Path | None:
    """Write an outcome that changes something; return ``None`` with a warning if it could not be written.

    Args:
        outcome_path: The file, also that of an earlier outcome of the same run; ``None`` = a new one below the
            project's folder, named by time and cluster.
    """
    if outcome_path is None and not outcome.pairs:
        return None
    created: Path | None = None
    try:
        path = outcome_path or (created := _created_file(target, outcome))
        write_text(path, writer.text(outcome), private=True)
        if created is not None:
            _forget_old(created)
    except (OSError, KquotaError) as error:
        if created is not None:
            created.unlink(missing_ok=True)
        notices.warning(f"the outcome file could not be written: {error}")
        return None
    return path


def _created_file(target: ClusterTarget, outcome: Outcome) -> Path:
    """Create the file of a new outcome; outcomes of one cluster and second are named by consecutive seconds."""
    for seconds in itertools.count():
        when = instant(outcome.started_at + seconds).replace(":", "")
        name = f"{FOLDER}/{when}-{target.name or 'cluster'}.json"
        path = own_path(target.root, name, content_name="outcomes")
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.touch(mode=PRIVATE, exist_ok=False)
            return path
    raise AssertionError("one of the seconds is free")


def _forget_old(path: Path) -> None:
    cluster = path.name[len(_TIME) :]
    for old in sorted(path.parent.glob(f"{_TIME}{cluster}"))[:-KEPT]:
        old.unlink(missing_ok=True)
