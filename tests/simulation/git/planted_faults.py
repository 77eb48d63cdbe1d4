"""Faults of ``kquota watch``: each is planted in the code, and a seed of the simulated branches must find it.

python -m tests.simulation.planted watch/
"""

from tests.mutants.fault import Fault


def _fault(what: str, file: str, old: str, new: str) -> Fault:
    return Fault(what=what, file=f"reconciler/app/watch/{file}", old=old, new=new, tests=())


GIT_PLANTED: tuple[Fault, ...] = (
    _fault(
        "a commit with problems is applied without the documents that have them",
        "revision.py",
        "    if problems:\n        raise ManifestErrors(sorted(set(problems)))",
        "    if not desired:\n        raise ManifestErrors(sorted(set(problems)))",
    ),
    _fault(
        "a rewritten history is refused",
        "branch_follower.py",
        "            await asyncio.to_thread(self._compare, before.commit, commit)\n",
        "            if not self._mirror.follows(commit, before.commit):\n                return\n",
    ),
    _fault(
        "running loops keep the documents of the first revision",
        "fleet.py",
        "            self._current = revision\n            self.watched.enqueue(revision.commit)",
        "            self.watched.enqueue(revision.commit)",
    ),
    _fault(
        "loops start with the settings before the last change",
        "fleet.py",
        "            self._current = self._newest\n",
        "            self._current = self._current or self._newest\n",
    ),
    _fault(
        "removals of earlier processes are not counted",
        "state_file.py",
        "        self.state.remember(removals={**self.state.now.removals, self.cluster: tuple(rows)})",
        "        del rows",
    ),
)
