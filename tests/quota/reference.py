"""Which entities can apply together: a second implementation of Kafka's rule."""

from reconciler.quota.entity import ABSENT, Entity


def may_match_same(first: Entity, second: Entity) -> bool:
    """Whether some client can fall under both entities.

    Two entities never apply together only if both name the same slot differently, or if one is an ip
    entity and the other is not (connection quotas are independent of users and client ids).
    """
    if (first[2] is ABSENT) != (second[2] is ABSENT):
        return False
    return all(
        first_name == second_name
        for first_name, second_name in zip(first, second, strict=True)
        if isinstance(first_name, str) and isinstance(second_name, str)
    )
