"""Kafka's own answer to "which limit applies to this client, and who shares it".

One JVM running the newest quota manager (`org.apache.kafka.server.quota.ClientQuotaManager`) answers
any number of questions; all 256 subsets of the eight levels fit in one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.servers import jars
from tests.servers.raw_quotas import Entity
from tests.servers.tools import Conversation, JavaSource

SOURCE = JavaSource(
    path=Path(__file__).parent / "PrecedenceOracle.java", class_name="PrecedenceOracle"
)
UNLIMITED = 2.0**63  # what the manager answers when nothing matches: Long.MAX_VALUE as a double


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A client as a broker sees it; the client id may be empty."""

    user: str
    client_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The limit of one caller, None for unlimited, and the tags of the bucket he counts in.

    The user's tag is percent-encoded by Kafka's `Sanitizer`.
    """

    limit: float | None
    tags: Mapping[str, str]


class PrecedenceOracle:
    """A running quota manager; use it in a `with`."""

    def __init__(self, version: str = jars.NEWEST) -> None:
        """Starts the JVM; `version` is 4.3.1 or newer, where the manager is a public Java class."""
        self._talk = Conversation(version, SOURCE)

    def resolve(
        self, cases: Iterable[tuple[Mapping[Entity, float], Sequence[Caller]]]
    ) -> list[list[Verdict]]:
        """For each case (limits of one key by entity, callers) one verdict per caller, in order."""
        question = {
            "cases": [
                {
                    "limits": [
                        {"entity": dict(owner), "value": value} for owner, value in limits.items()
                    ],
                    "callers": [
                        {"user": caller.user, "client-id": caller.client_id} for caller in callers
                    ],
                }
                for limits, callers in cases
            ]
        }
        answer = self._talk.ask(question)
        return [[_verdict(one) for one in case] for case in answer["cases"]]

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the JVM."""
        self._talk.close()


def _verdict(answer: Mapping[str, Any]) -> Verdict:
    limit = float(answer["limit"])
    return Verdict(limit=None if limit >= UNLIMITED else limit, tags=dict(answer["tags"]))
