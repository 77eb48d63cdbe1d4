"""Two documents for one pair, said at both of their places."""

from reconciler.errors import Problem
from reconciler.quota.desired import Desired


def conflict_problems(desired: Desired) -> list[Problem]:
    """Each conflict as problems at both places."""
    problems: list[Problem] = []
    for conflict in desired.conflicts:
        for claim in conflict.claims:
            others = ", ".join(
                f"{other.document} at {other.place(conflict.key)}"
                for other in conflict.claims
                if other is not claim
            )
            place = claim.place(conflict.key)
            words = f"{claim.document} and {others} both declare {conflict.key} of one entity"
            problems.append(Problem(claim.path, int(place.rpartition(":")[2]), 1, words))
    return problems
