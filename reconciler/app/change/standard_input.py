"""Checks documents from standard input for missing flags before a cluster is queried.

``kquota export | kquota apply -`` reads its documents once, so a refusal after the describe would waste both runs.
"""

from collections import Counter
from typing import TYPE_CHECKING, Final

from reconciler.app.clusters.documents import STDIN
from reconciler.errors import PlanRefused
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.planner.comparison import compare
from reconciler.quota.planner.guards import Guard, check
from reconciler.quota.policy import Rules
from reconciler.quota.state import QuotaState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.app.change.plan_preparation import PlanTask

_FLAGS: Final = {
    Guard.PROTECTED: (
        "--allow-defaults",
        "of default entities, which affect every client without a more specific limit",
    ),
    Guard.BOUNDS_UNIT: ("--allow-small-values", "that look like a wrong unit"),
}


def check_piped(task: "PlanTask", paths: "Sequence[str]") -> None:
    """Check that all flags that the documents of standard input need are set.

    Raises:
        PlanRefused: One is missing; the hint lists all missing flags.
    """
    if STDIN not in paths:
        return
    plan = compare(
        desired=task.desired,
        owned=OwnershipRecords(cluster_id=""),
        live=QuotaState(),
        rules=Rules(),
    )
    counts = Counter(
        violation.guard for violation in check(plan, task.options.guards, QuotaState())
    )
    missing = [guard for guard in _FLAGS if counts[guard]]
    if missing:
        limits = " and ".join(f"{counts[guard]} limits {_FLAGS[guard][1]}" for guard in missing)
        flags = " ".join(_FLAGS[guard][0] for guard in missing)
        raise PlanRefused(
            f"standard input declares {limits}; the cluster was not contacted",
            hint=f"if this is intended, add {flags}",
        )
