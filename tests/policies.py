"""What each policy may do, as docs/semantics.md says it: the one table that models, laws and cases read; nothing of the planner."""

from typing import Final, NamedTuple

from reconciler.quota.policy import DeletionPolicy, Policy


class Permission(NamedTuple):
    """What a policy permits."""

    creates: bool  # set a limit that is not live, and record
    changes: bool  # take over, change and correct a live limit
    removes: bool  # remove what documents ask to remove
    sweeps: bool  # also remove what no document names


PERMISSIONS: Final = {
    Policy.OBSERVE: Permission(creates=False, changes=False, removes=False, sweeps=False),
    Policy.CREATE_ONLY: Permission(creates=True, changes=False, removes=False, sweeps=False),
    Policy.UPSERT: Permission(creates=True, changes=True, removes=True, sweeps=False),
    Policy.SYNC: Permission(creates=True, changes=True, removes=True, sweeps=True),
}
"""From the strictest to the loosest."""

CREATING, CHANGING, REMOVING, SWEEPING = (
    frozenset(policy for policy, permission in PERMISSIONS.items() if permission[column])
    for column in range(len(Permission._fields))
)
"""The policies that permit each."""


def removes(policy: Policy, deletion: DeletionPolicy | None) -> bool:
    """Whether a limit is removed whose document was deleted with a deletionPolicy."""
    if deletion is DeletionPolicy.DELETE:
        return policy in REMOVING
    return deletion is None and policy in SWEEPING
