"""Outcome files of applies, which ``kquota rollback`` reads.

An outcome is written before the first request, as if the run ended there, and replaced at the end of the run, so that
a killed run can be undone.
"""

import contextlib
import fnmatch
import glob
import itertools
import os
from datetime import datetime
from pathlib import Path
from typing import Final

from reconciler.app.clusters.state_files import own_path
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.base.durable_files import PRIVATE, make_private_folder
from reconciler.base.text_files import cannot_write, write_text
from reconciler.codecs.outcome import OutcomeWriter
from reconciler.errors import UsageError
from reconciler.quota.results.report import Outcome
from reconciler.render.units import instant

OUTCOME_FOLDER: Final = ".kquota/outcomes"
MOST_OUTCOMES: Final = 50
"""Maximum number of outcomes per cluster; older ones are deleted."""

_TIME: Final = "????-??-??T??????Z"
"""Prefix of the name of an outcome, as a glob."""


def save_outcome(
    target: ClusterTarget, outcome: Outcome, outcome_path: Path | None, writer: OutcomeWriter
) -> Path | None:
    """Write an outcome below the project's folder and return its file; ``None`` for an outcome that changes nothing.

    Args:
        outcome_path: The file of an earlier outcome of the same run; ``None`` = a new one, named by time and cluster.
        writer: The writer of this run.

    Raises:
        UsageError: It cannot be written.
        ConfigError: Git tracks a file that it would replace.
    """
    if not outcome.pairs:
        return None
    path = outcome_path or _created_file(target, outcome)
    try:
        write_text(path, writer.pieces(outcome), private=True, may_leave=True)
    except UsageError:
        if outcome_path is None:
            path.unlink(missing_ok=True)
        raise
    _forget_old(path)
    return path


def saved_outcomes(root: Path, cluster: str = "") -> list[Path]:
    """Return the outcomes in a project's folder, the newest first; an empty file is of a run that was killed before it sent anything.

    Args:
        cluster: Only those of this cluster; "" = all.
    """
    folder = root / OUTCOME_FOLDER
    return [
        path
        for name in reversed(_names(folder, f"-{glob.escape(cluster) or '*'}.json"))
        if not (path := folder / name).is_file() or path.stat().st_size
    ]


def _names(folder: Path, end: str) -> list[str]:
    """Return the names of outcomes with an end (a glob), sorted by time. No file is looked at: a fleet has thousands."""
    names = [entry.name for entry in os.scandir(folder)] if folder.is_dir() else []
    return sorted(fnmatch.filter(names, f"{_TIME}{end}"))


def _created_file(target: ClusterTarget, outcome: Outcome) -> Path:
    """Create the file of a new outcome; its name is later than all names there are, also after a step of the clock back."""
    started = outcome.started_at
    with contextlib.suppress(IndexError, ValueError):
        newest = _names(target.root / OUTCOME_FOLDER, "-*.json")[-1][: len(_TIME)]
        started = max(started, datetime.strptime(newest, "%Y-%m-%dT%H%M%S%z").timestamp() + 1.0)
    for seconds in itertools.count():
        name = f"{instant(started + seconds).replace(':', '')}-{target.name or 'cluster'}.json"
        path = own_path(target.root, f"{OUTCOME_FOLDER}/{name}", content_name="outcomes")
        if os.path.lexists(path):
            continue
        try:
            make_private_folder(path.parent)
            path.touch(mode=PRIVATE, exist_ok=False)
        except OSError as error:
            raise cannot_write(path, error) from error
        return path
    raise AssertionError("one of the seconds is free")


def _forget_old(path: Path) -> None:
    for old in _names(path.parent, glob.escape(path.name[len(_TIME) :]))[:-MOST_OUTCOMES]:
        with contextlib.suppress(OSError):
            path.with_name(old).unlink()
