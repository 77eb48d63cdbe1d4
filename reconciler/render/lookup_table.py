"""What a page holds once and its rows call by number: entities, values and words. No layout, no markup.

A page of 10,000 entities says the same document, reason and limit thousands of times; by number a row is some twenty
characters. Words are escaped here (``names``), so that no name reorders or hides anything; markup is no question,
because the page shows text only as text.
"""

from reconciler.base.escaping import escaped
from reconciler.quota.entity import ABSENT, Entity, Slot, parts
from reconciler.quota.entity_forms import DEFAULT_TEXT, entity_text
from reconciler.quota.keys import COLUMN_OF, Key
from reconciler.quota.precedence import Principal
from reconciler.render.impact_rows import client_entity
from reconciler.render.json_values import Json, value_json
from reconciler.render.units import number, quantity

_ABSENT_JSON = 0
"""How a row of entities says that a slot is absent; ``null`` is the default, and a string is a name."""


class PageLookup:
    """Collects what rows refer to; the numbers are those of the first mention."""

    def __init__(self) -> None:
        self._words: dict[str, int] = {}
        self._entities: dict[Entity, int] = {}
        self._values: dict[tuple[Key, str], int] = {}
        self._entity_rows: list[Json] = []
        self._value_rows: list[Json] = []

    def text_number(self, text: str) -> int:
        """The number of a text, which is shown on one line."""
        return self._words.setdefault(escaped(text), len(self._words))

    def entity(self, subject: Entity) -> int:
        """The number of an entity."""
        at = self._entities.get(subject)
        if at is None:
            at = self._entities[subject] = len(self._entity_rows)
            self._entity_rows.append(_entity_row(subject))
        return at

    def client(self, principal: Principal) -> int:
        """The number of a client, written like an entity that names just what is known of it."""
        return self.entity(client_entity(principal))

    def value(self, key: Key, value: float | None) -> int | None:
        """The number of a value of a key; ``None`` where it is not set."""
        if value is None:
            return None
        # By its text: not a number is equal to nothing, and zero to minus zero.
        name = (key, repr(value))
        at = self._values.get(name)
        if at is None:
            at = self._values[name] = len(self._value_rows)
            exact, displayed = number(value), quantity(key, value)
            row: list[Json] = [COLUMN_OF[key], value_json(value), exact]
            self._value_rows.append(row if displayed.startswith(exact) else [*row, displayed])
        return at

    def document(self) -> dict[str, Json]:
        """The lists that the numbers count in."""
        return {
            "words": list(self._words),
            "entities": self._entity_rows,
            "values": self._value_rows,
        }


def _entity_row(subject: Entity) -> list[Json]:
    """``[user, client-id, ip]``, and its text where that is not simply made of the names."""
    row: list[Json] = [_slot(slot) for slot in subject]
    text = entity_text(subject)
    plain = ",".join(
        f"{kind}={DEFAULT_TEXT if name is None else name}" for kind, name in parts(subject)
    )
    return row if text == plain else [*row, text]


def _slot(slot: Slot) -> Json:
    return _ABSENT_JSON if slot is ABSENT else slot
