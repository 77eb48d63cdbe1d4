"""Loads many manifests with a second process. Parsing YAML is a third of an apply, and one process uses one processor.

The second process is a fork, so that it needs no start and no copy of the texts. Only a process with one thread may be
forked: locks that another thread holds would stay locked.
"""

import os
import pickle
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import BinaryIO, Final

from reconciler.manifest.cluster_selector import Labels
from reconciler.manifest.loader import LoadedManifests, load_files
from reconciler.manifest.syntax.yaml_parser import MAX_NODES, NodeBudget

WORTH_SHARING: Final = 400_000
"""Characters of manifests from which on a second process saves more than it costs: about a thousand documents."""

_STOPS: Final = (signal.SIGINT, signal.SIGTERM)

_Part = tuple[LoadedManifests, int]
"""What was loaded, and the number of nodes of its files."""


def load_in_two(
    files: Sequence[tuple[str, str]],
    *,
    clusters: Mapping[str, Labels] | None = None,
    progress: Callable[[int], None] | None = None,
    least: int = WORTH_SHARING,
    count_threads: Callable[[], int] = threading.active_count,
) -> LoadedManifests | None:
    """Load the documents in these files, half of them in a second process; see :func:`load_files`.

    Args:
        files: As for :func:`load_files`.
        clusters: As for :func:`load_files`.
        progress: Called with the number of documents of this process.
        least: Characters from which on it is done.
        count_threads: Returns the number of threads of this process.

    Returns:
        ``None`` if the files are too few, this process cannot be forked, or something is wrong with the files: then
        :func:`load_files` loads them, and reports all problems.
    """
    sizes = list(accumulate(len(text) for _, text in files))
    is_forkable = hasattr(os, "fork") and count_threads() == 1
    if not is_forkable or len(files) < 2 or sizes[-1] < least or os.cpu_count() == 1:
        return None
    middle = next(at for at, size in enumerate(sizes, start=1) if 2 * size >= sizes[-1])
    middle = min(middle, len(files) - 1)
    try:
        pid, stream, blocked = _fork(lambda: _load(files[middle:], clusters, None))
    except OSError:  # no process, memory or file descriptor is left
        return None
    status = 1
    try:
        with stream:
            _ = signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            first = _load(files[:middle], clusters, progress)
            content = stream.read()
    except BaseException:  # such as Ctrl-C, of which only this process may have been told
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        raise
    finally:
        with suppress(ChildProcessError):  # whoever started this process let it ignore SIGCHLD
            _, status = os.waitpid(pid, 0)
    return _joined(first, pickle.loads(content)) if status == 0 and content else None  # noqa: S301 - from the fork


def _load(
    files: Sequence[tuple[str, str]],
    clusters: Mapping[str, Labels] | None,
    progress: Callable[[int], None] | None,
) -> _Part:
    budget = NodeBudget()
    loaded = load_files(files, clusters=clusters, budget=budget, progress=progress)
    return loaded, MAX_NODES - budget.remaining


def _fork(work: Callable[[], _Part]) -> tuple[int, BinaryIO, set[int]]:
    """Return the id of a process that does some work, the stream of its pickled result, and the signals blocked before.

    The caller restores these signals where it ends the process if one of them arrives.

    Raises:
        OSError: There is no second process.
    """
    reading, writing = os.pipe()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    try:
        pid = os.fork()
    except OSError:
        _ = signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.close(reading)
        os.close(writing)
        raise
    if pid == 0:
        status = 1
        with suppress(BaseException):
            # A signal ends this process, and wakes no event loop of the other one.
            _ = signal.set_wakeup_fd(-1)
            for stop in _STOPS:
                _ = signal.signal(stop, signal.SIG_DFL)
            _ = signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            os.close(reading)
            with os.fdopen(writing, "wb") as stream:
                pickle.dump(work(), stream)
            status = 0
        os._exit(status)
    os.close(writing)
    return pid, os.fdopen(reading, "rb"), blocked


def _joined(first: _Part, second: _Part) -> LoadedManifests | None:
    """Join two parts; ``None`` if there is any problem, also one between them."""
    (before, nodes), (after, more_nodes) = first, second
    if before.problems or after.problems or nodes + more_nodes > MAX_NODES:
        return None
    names = (*before.by_cluster, *after.by_cluster)
    by_cluster = {name: before.of(name) + after.of(name) for name in names}
    for declarations in by_cluster.values():
        if len({declaration.document for declaration in declarations}) < len(declarations):
            return None  # A document is declared twice.
    return LoadedManifests(
        by_cluster=by_cluster,
        problems=(),
        warnings=tuple(sorted(before.warnings + after.warnings)),
        file_count=before.file_count + after.file_count,
    )
