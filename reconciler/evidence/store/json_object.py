"""Strict JSON objects: each field once, of the expected type, and no unknown field."""

from collections.abc import Mapping
from datetime import date
from typing import Final, NoReturn

from reconciler.base import bounded_json
from reconciler.errors import LakeDamaged

MOST_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of a manifest or of ``LATEST.json``: 250 bytes per file; a year of evidence has 1,500 files."""


class JsonObject:
    """The fields of one JSON object. Each field is read once; :meth:`end` rejects fields that were not read."""

    def __init__(self, members: Mapping[str, object], path: str) -> None:
        self._left = dict(members)
        self.path = path

    @classmethod
    def parsed(cls, content: bytes, path: str) -> "JsonObject":
        """Parse the content of a file.

        Raises:
            LakeDamaged: The content is not JSON, not an object, too large, or has a duplicate name.
        """

        def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
            members = dict(pairs)
            if len(members) != len(pairs):
                raise LakeDamaged("duplicate name in an object", path=path)
            return members

        try:
            parsed_value: object = bounded_json.parse(content, most_bytes=MOST_BYTES, pairs=once)
        except bounded_json.InvalidJson as error:
            raise LakeDamaged(
                f"is not JSON ({error})" if content else "is empty",
                path=path,
                hint="it was cut off or damaged",
            ) from error
        if not isinstance(parsed_value, dict):
            raise LakeDamaged("is not a JSON object", path=path)
        return cls(parsed_value, path)

    def text(self, name: str) -> str:
        """Return a string field.

        Raises:
            LakeDamaged: The field is missing or has another type; the same for every method here.
        """
        value = self._take(name)
        return value if isinstance(value, str) else self._wrong(name, "a text")

    def number(self, name: str) -> int:
        """Return an integer field that is at least 0."""
        value = self._take(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        return self._wrong(name, "a whole number from 0")

    def day(self, name: str) -> date:
        """Return a date field (YYYY-MM-DD)."""
        try:
            return date.fromisoformat(self.text(name))
        except ValueError:
            return self._wrong(name, "a date")

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a field that is a list of strings."""
        value = self._take(name)
        if isinstance(value, list) and all(isinstance(element, str) for element in value):
            return tuple(value)
        return self._wrong(name, "a list of texts")

    def numbers(self, name: str) -> dict[str, int]:
        """Return a field that is an object of integers that are at least 0."""
        value = self._take(name)
        if isinstance(value, dict):
            inner = JsonObject(value, self.path)
            return {key: inner.number(key) for key in value}
        return self._wrong(name, "an object of whole numbers")

    def texts_by_name(self, name: str) -> dict[str, str]:
        """Return a field that is an object of strings."""
        value = self._take(name)
        if isinstance(value, dict):
            inner = JsonObject(value, self.path)
            return {key: inner.text(key) for key in value}
        return self._wrong(name, "an object of texts")

    def objects(self, name: str) -> tuple["JsonObject", ...]:
        """Return a field that is a list of objects."""
        value = self._take(name)
        if isinstance(value, list) and all(isinstance(element, dict) for element in value):
            return tuple(JsonObject(element, self.path) for element in value)
        return self._wrong(name, "a list of objects")

    def end(self) -> None:
        """Check that all fields were read; called last.

        Raises:
            LakeDamaged: The object has an unknown field.
        """
        if self._left:
            raise LakeDamaged(
                f"the field {min(self._left)!r} is not known",
                path=self.path,
                hint="a newer version may have written it: upgrade kquota",
            )

    def _take(self, name: str) -> object:
        if name not in self._left:
            raise LakeDamaged(f"the field {name!r} is missing", path=self.path)
        return self._left.pop(name)

    def _wrong(self, name: str, expectation: str) -> NoReturn:
        raise LakeDamaged(f"the field {name!r} is not {expectation}", path=self.path)
