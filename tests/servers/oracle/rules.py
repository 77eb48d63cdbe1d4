"""Kafka's own validation of alterations and describe filters, without a broker.

`ClientQuotaControlManager` and `ClientQuotasImage` of any supported version in one JVM, with the error
codes and messages of a KRaft broker of that version.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.servers.raw_quotas import Answer, Entity, Quotas
from tests.servers.tools import Conversation, JavaSource

SOURCE = JavaSource(
    path=Path(__file__).parent / "RulesOracle.java",
    class_name="org.apache.kafka.controller.RulesOracle",
)

# An entry of a request: entity parts in order (a type may occur twice), operations in order (a key
# may occur twice), None for the default name and for "remove".
Entry = tuple[Sequence[tuple[str, str | None]], Sequence[tuple[str, float | None]]]
Component = tuple[
    str, int, str | None
]  # entity type, match type (0 exact, 1 default, 2 any), match


class BatchRefused(Exception):
    """The controller refused the whole request; the message has the Java exception's class and message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """The response to a describe: error code, message, and quotas if the code is 0."""

    code: int
    message: str | None
    quotas: Quotas


class RulesOracle:
    """Quotas in memory under Kafka's rules, as a context manager."""

    def __init__(self, version: str) -> None:
        """Start the JVM with the classes of `version`, without quotas."""
        self._talk = Conversation(version, SOURCE)

    def reset(self) -> None:
        """Remove all quotas."""
        self._talk.ask({"ask": "reset"})

    def load(self, quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        """Add quotas without validation, as a replay of the metadata log does."""
        rows = [
            {"entity": owner, "key": key, "value": _number(value)}
            for owner, values in quotas.items()
            for key, value in values.items()
        ]
        self._talk.ask({"ask": "load", "quotas": rows})

    def alter(self, entries: Iterable[Entry], *, validate_only: bool = False) -> list[Answer]:
        """Validate and commit entries; return the results, in hash order as from a broker.

        Raises:
            BatchRefused: The entries result in more than 10,000 records.
        """
        question = {
            "ask": "alter",
            "validateOnly": validate_only,
            "entries": [
                {"entity": entity, "ops": [(key, _number(value)) for key, value in operations]}
                for entity, operations in entries
            ],
        }
        answer = self._talk.ask(question)
        if "exception" in answer:
            raise BatchRefused(f"{answer['exception']}: {answer['message']}")
        return [
            Answer(
                entity=_entity(result["entity"]), error=result["code"], message=result["message"]
            )
            for result in answer["results"]
        ]

    def describe(self, components: Iterable[Component] = (), *, strict: bool = False) -> Described:
        """Describe the quotas that match a filter; by default all."""
        question = {"ask": "describe", "strict": strict, "components": list(components)}
        answer = self._talk.ask(question)
        quotas = {
            _entity(entry["entity"]): {key: float(value) for key, value in entry["values"].items()}
            for entry in answer["entries"]
        }
        return Described(code=answer["code"], message=answer["message"], quotas=quotas)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._talk.close()


def _entity(parts: Iterable[Sequence[str | None]]) -> Entity:
    return tuple(sorted((str(kind), name) for kind, name in parts))


def _number(value: float | None) -> float | str | None:
    """Convert a value to JSON; NaN and infinities become the strings that Java parses."""
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
