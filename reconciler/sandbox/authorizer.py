"""Permissions on the sandbox's cluster resource: operations by principal, and the bit field that encodes them.

Quotas need two operations on ``Cluster:kafka-cluster``, DescribeConfigs and AlterConfigs; Describe lets a client see
its own permissions and the SCRAM users. Implications and bits are Kafka's (``StandardAuthorizerData``,
``AclEntry.supportedOperations``): AlterConfigs includes DescribeConfigs, Alter includes Describe.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from msgspec import Struct, field


class Operation(IntEnum):
    """Operations on the cluster resource, with the codes of Kafka's ``AclOperation``."""

    CREATE = 5
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


EVERYTHING: Final = frozenset(Operation)

_INCLUDES: Final = {
    Operation.ALTER: frozenset({Operation.DESCRIBE}),
    Operation.ALTER_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS}),
}

RECONCILER: Final = frozenset({Operation.ALTER_CONFIGS, Operation.DESCRIBE})
"""Operations that a principal needs to plan and apply quotas."""

READER: Final = frozenset({Operation.DESCRIBE_CONFIGS, Operation.DESCRIBE})
"""Operations that a principal needs to plan."""


class Authorizer(Struct, frozen=True, kw_only=True):
    """Operations by principal name (without ``User:``)."""

    # Granted operations of each listed principal; implied operations may be omitted.
    grants: Mapping[str, frozenset[Operation]] = field(
        default_factory=dict[str, frozenset[Operation]]
    )
    default_operations: frozenset[Operation] = frozenset()  # operations of every other principal

    def rights(self, principal: str) -> frozenset[Operation]:
        """Return all operations of the principal, implied ones included."""
        granted = self.grants.get(principal, self.default_operations)
        return granted.union(*(_INCLUDES.get(operation, frozenset()) for operation in granted))

    def allows(self, principal: str, operation: Operation) -> bool:
        """Whether the principal may do it."""
        return operation in self.rights(principal)

    def bits(self, principal: str) -> int:
        """Return ``cluster_authorized_operations``; 0 for a principal that may not even Describe."""
        rights = self.rights(principal)
        if Operation.DESCRIBE not in rights:
            return 0
        return sum(1 << operation for operation in rights)


OPEN: Final = Authorizer(default_operations=EVERYTHING)
"""No authorizer: every principal may do everything, as on a broker without one."""
