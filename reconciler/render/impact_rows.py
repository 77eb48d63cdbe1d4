"""Rows about the clients whose limits a plan changes, and about limits that can never apply after it."""

from collections.abc import Mapping
from typing import Final

from reconciler.quota.entity import ABSENT, Entity, Slot
from reconciler.quota.impact import Affected, Direction, Sharing
from reconciler.quota.precedence import Effective, Principal
from reconciler.quota.report import Preview
from reconciler.render.names import entity_text
from reconciler.render.rows import Row, by_how_much
from reconciler.render.units import limit

AFFECTED_TITLE: Final = "Other clients with another limit"
AFFECTED_SAYS: Final = "Known clients, with what they get before and after, and from which level."
NEVER_TITLE: Final = "Never applies after this plan"
NEVER_SAYS: Final = "A closer level holds for every client that these could match."
EXCLUSIVE_TITLE: Final = "Exclusive removals"
EXCLUSIVE_SAYS: Final = (
    "Live in our scope, declared nowhere and never ours: removed because the cluster is exclusive."
)

_MARKS: Final[Mapping[Direction, tuple[str, str]]] = {
    Direction.TIGHTENED: ("<", "red"),
    Direction.LOOSENED: (">", "green"),
    Direction.NEWLY_LIMITED: ("+", "yellow"),
    Direction.NEWLY_UNLIMITED: ("-", "yellow"),
    Direction.UNCHANGED: ("=", "dim"),
}
SHARING: Final[Mapping[Sharing, str]] = {
    Sharing.SAME: "",
    Sharing.BEGUN: "",
    Sharing.ENDED: "",
    Sharing.SPLIT: "bucket split: shared with fewer",
    Sharing.JOINED: "bucket joined: shared with more",
    Sharing.OTHER: "bucket shared with others",
}
"""What the sharing of a bucket becomes, where that is news."""


def unlisted(preview: Preview) -> tuple[Affected, ...]:
    """Known clients with another limit or bucket, without those of whom the row of a change says the same."""
    if preview.impact is None:
        return ()
    listed = {
        (change.entity, change.key, change.before, change.after) for change in preview.plan.changes
    }
    return tuple(
        one
        for one in preview.impact.affected
        if SHARING[one.sharing]
        or (client_entity(one.principal), one.key, one.before.value, one.after.value) not in listed
    )


def affected_rows(preview: Preview, *, most: int | None = None) -> tuple[Row, ...]:
    """Rows of :func:`unlisted`; the first ``most`` of them."""
    return tuple(map(_affected, unlisted(preview)[:most]))


def never_rows(preview: Preview, *, most: int | None = None) -> tuple[Row, ...]:
    """Limits that could apply before and cannot after the plan; the first ``most`` of them."""
    impact = preview.impact
    if impact is None:
        return ()
    return tuple(
        Row(
            mark="·",
            colour="yellow",
            entity=entity_text(one.entity),
            key=str(one.key),
            before="",
            after="",
            note=f"{entity_text(one.by)} is closer",
        )
        for one in impact.new_shadows[:most]
    )


def client_entity(principal: Principal) -> Entity:
    """A client written like an entity that names just what is known of it."""
    names = (principal.user, principal.client_id, principal.ip)
    user, client_id, ip = map(_slot, names)
    return Entity((user, client_id, ip))


def _slot(name: str | None) -> Slot:
    return ABSENT if name is None else name


def _affected(one: Affected) -> Row:
    mark, colour = _MARKS[one.direction]
    return Row(
        mark=mark,
        colour=colour,
        entity=entity_text(client_entity(one.principal)),
        key=str(one.key),
        before=_limit(one.before),
        after=_limit(one.after),
        meaning=by_how_much(one.direction, one.factor),
        why=SHARING[one.sharing],
        note=" -> ".join(dict.fromkeys((_level(one.before), _level(one.after)))),
    )


def _limit(one: Effective) -> str:
    return "unlimited" if one.value is None else limit(one.key, one.value)


def _level(one: Effective) -> str:
    return "no level" if one.source is None else f"level {one.level} {entity_text(one.source)}"
