"""Kafka's own validation of alterations and its describe filters, without a broker.

`ClientQuotaControlManager` and `ClientQuotasImage` of any supported version in one JVM: what they
say is what a KRaft broker of that version says, error codes and words included.
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

# An entry as it is sent: entity parts in order (a type may come twice), operations in order (a key
# may come twice), None for the default name and for "remove".
Entry = tuple[Sequence[tuple[str, str | None]], Sequence[tuple[str, float | None]]]
Component = tuple[
    str, int, str | None
]  # entity type, match type (0 exact, 1 default, 2 any), match


class BatchRefused(Exception):
    """The controller refused the whole request; carries the Java exception's class and words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """The answer to a describe: a code, Kafka's words for it, and the entities when it is 0."""

    code: int
    message: str | None
    quotas: Quotas


class RulesOracle:
    """Quotas in memory under Kafka's rules; use it in a `with`."""

    def __init__(self, version: str) -> None:
        """Starts the JVM with the classes of `version`, empty."""
        self._talk = Conversation(version, SOURCE)

    def reset(self) -> None:
        """Forgets all quotas."""
        self._talk.ask({"ask": "reset"})

    def load(self, quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        """Adds quotas without validation, as a replay of the metadata log does."""
        rows = [
            {"entity": owner, "key": key, "value": _number(value)}
            for owner, values in quotas.items()
            for key, value in values.items()
        ]
        self._talk.ask({"ask": "load", "quotas": rows})

    def alter(self, entries: Iterable[Entry], *, validate_only: bool = False) -> list[Answer]:
        """The results, in hash order as from a broker; valid entries are committed.

        Raises:
            BatchRefused: more than 10,000 records came of it.
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
        """What a describe with this filter answers; by default everything."""
        question = {"ask": "describe", "strict": strict, "components": list(components)}
        answer = self._talk.ask(question)
        quotas = {
            _entity(entry["entity"]): {key: float(value) for key, value in entry["values"].items()}
            for entry in answer["entries"]
        }
        return Described(code=answer["code"], message=answer["message"], quotas=quotas)

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the JVM."""
        self._talk.close()


def _entity(parts: Iterable[Sequence[str | None]]) -> Entity:
    return tuple(sorted((str(kind), name) for kind, name in parts))


def _number(value: float | None) -> float | str | None:
    """JSON has no NaN and no infinities; Java reads these words."""
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
