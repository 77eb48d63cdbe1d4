"""Revisions that decide what is trusted: full object ids and full ref names, which no other ref can shadow.

Git resolves a short name by a list of prefixes (gitrevisions(7)): ``refs/tags/origin/main`` comes before
``refs/remotes/origin/main``, so a user who may push a tag decides what ``origin/main`` means. Git only warns of it.
"""

import re
from typing import Final

from reconciler.errors import GitError
from reconciler.git.command import run
from reconciler.git.repository import Repository

_FULL_ID: Final = re.compile(r"[0-9a-fA-F]{40}|[0-9a-fA-F]{64}")
_SHORT_ID: Final = re.compile(r"[0-9a-fA-F]{4,63}")
_OWN_HISTORY: Final = re.compile(r"HEAD(?:[~^][0-9]*)*")
"""``HEAD`` is resolved before every ref, and ``~`` and ``^`` cannot be part of a ref's name."""

_PLACES: Final = ("refs/remotes/", "refs/heads/", "refs/tags/", "refs/")
"""Prefixes with which git resolves a short name; the likeliest meaning of a trusted branch first."""


def exact_commit(
    repository: Repository, revision: str, *, option: str, own_history: bool = False
) -> str:
    """Return the commit id of a revision, if it is unambiguous.

    Args:
        revision: A full object id, or the full name of a ref (``refs/...``).
        own_history: Whether ``HEAD``, ``HEAD~2`` and the like are accepted as well.

    Raises:
        GitError: The revision is a short name or an abbreviated id, or not a commit of this clone.
    """
    if _FULL_ID.fullmatch(revision):
        commit = repository.commit(revision)
        if len(commit) == len(revision):
            return commit
    elif revision.startswith("refs/"):
        target = _target_of(repository, revision)
        if target is None:
            raise GitError(
                f"there is no ref {revision} in {repository.top}",
                hint=f"git fetch brings the branch; git for-each-ref lists what is here; {option} takes no ~, ^ or @ after a ref",
            )
        return repository.commit(target)
    elif own_history and _OWN_HISTORY.fullmatch(revision):
        return repository.commit(revision)
    raise _inexact(repository, revision, option)


def _target_of(repository: Repository, ref: str) -> str | None:
    """Return the object id of the ref of exactly this name."""
    if not ref.isprintable():
        return None
    code, answer = run(
        repository.top,
        ("show-ref", "--verify", "--hash", "--", ref),
        answers=(0, 1, 128),
        variables=repository.variables,
    )
    return answer.decode("ascii").strip() if code == 0 else None


def _inexact(repository: Repository, revision: str, option: str) -> GitError:
    meanings = [
        ref for place in _PLACES if _target_of(repository, ref := place + revision) is not None
    ]
    name = f"{option} {revision!r}"
    if meanings:
        meaning = meanings[0]
        message = (
            f"{name} is a short name: here it can mean {' or '.join(sorted(meanings))}"
            if len(meanings) > 1
            else f"{name} is a short name, and a tag or branch of the same name can take its place"
        )
        hint = f"write {meaning}, or the full commit id (git rev-parse --verify '{meaning}^{{commit}}')"
    elif revision == "HEAD":
        message = f"{name} is the revision under review"
        hint = "write the full commit id of a revision that you trust (git rev-parse HEAD prints this one)"
    elif _SHORT_ID.fullmatch(revision):
        message = (
            f"{name} is not a full commit id, and a tag or branch of this name can take its place"
        )
        hint = (
            f"write the full commit id (git rev-parse --verify '{revision}^{{commit}}' prints it)"
        )
    else:
        message = f"{name} is neither a full commit id nor the full name of a ref"
        hint = "write refs/remotes/origin/BRANCH, or the full commit id (git rev-parse --verify REF prints it)"
    return GitError(message, hint=hint)
