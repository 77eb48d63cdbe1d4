"""Problems for two documents that declare one pair, at both places."""

from reconciler.errors import Problem
from reconciler.quota.planner.desired_state import DesiredState


def conflict_problems(desired: DesiredState) -> list[Problem]:
    """Return each conflict as problems at all its places."""
    problems: list[Problem] = []
    for conflict in desired.conflicts:
        for claim in conflict.claims:
            claim_places = ", ".join(
                f"{declared_claim.document} at {declared_claim.place(conflict.key)}"
                for declared_claim in conflict.claims
                if declared_claim is not claim
            )
            place = claim.place(conflict.key)
            words = f"{claim.document} and {claim_places} both declare {conflict.key} of one entity"
            problems.append(Problem(claim.path, int(place.rpartition(":")[2]), 1, words))
    return problems
