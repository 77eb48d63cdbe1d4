"""Values that a page contains once and its rows refer to by number: entities, values and texts.

A page of 10,000 entities repeats the same document, reason and limit thousands of times; by number a row is some
twenty characters. Texts are escaped here (``escaping``), so that no name reorders or hides anything; markup needs no
escaping, because the page sets text only.
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
"""Value of an absent slot in a row of entities; ``null`` is the default, and a string is a name."""


class PageLookup:
    """Collects what rows refer to; numbers are in order of first use."""

    def __init__(self) -> None:
        self._words: dict[str, int] = {}
        self._entities: dict[Entity, int] = {}
        self._values: dict[tuple[Key, str], int] = {}
        self._entity_rows: list[Json] = []
        self._value_rows: list[Json] = []

    def text_number(self, text: str) -> int:
        """Return the number of a text, which is shown on one line."""
        return self._words.setdefault(escaped(text), len(self._words))

    def entity(self, subject: Entity) -> int:
        """Return the number of an entity."""
        at = self._entities.get(subject)
        if at is None:
            at = self._entities[subject] = len(self._entity_rows)
            self._entity_rows.append(_entity_row(subject))
        return at

    def client(self, principal: Principal) -> int:
        """Return the number of a client, written as an entity with exactly its known names."""
        return self.entity(client_entity(principal))

    def value(self, key: Key, value: float | None) -> int | None:
        """Return the number of a value of a key; ``None`` if it is not set."""
        if value is None:
            return None
        # By its text: NaN equals nothing, and zero equals minus zero.
        name = (key, repr(value))
        at = self._values.get(name)
        if at is None:
            at = self._values[name] = len(self._value_rows)
            exact, displayed = number(value), quantity(key, value)
            row: list[Json] = [COLUMN_OF[key], value_json(value), exact]
            self._value_rows.append(row if displayed.startswith(exact) else [*row, displayed])
        return at

    def document(self) -> dict[str, Json]:
        """Return the lists that the numbers refer to."""
        return {
            "words": list(self._words),
            "entities": self._entity_rows,
            "values": self._value_rows,
        }


def _entity_row(subject: Entity) -> list[Json]:
    """Return ``[user, client-id, ip]``, and the text if it is not simply the names."""
    row: list[Json] = [_slot(slot) for slot in subject]
    text = entity_text(subject)
    plain = ",".join(
        f"{kind}={DEFAULT_TEXT if name is None else name}" for kind, name in parts(subject)
    )
    return row if text == plain else [*row, text]


def _slot(slot: Slot) -> Json:
    return _ABSENT_JSON if slot is ABSENT else slot
