"""Kafka's own implementation of which limit applies to a client, and which clients share it.

One JVM with the newest quota manager (`org.apache.kafka.server.quota.ClientQuotaManager`) processes any
number of requests; one request can hold all 256 subsets of the eight levels.
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
UNLIMITED = 2.0**63  # the manager's limit if no quota matches: Long.MAX_VALUE as a double


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A client as a broker identifies it; the client id may be empty."""

    user: str
    client_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The limit of a caller, None for unlimited, and the metric tags that the caller is counted under.

    The user's tag is percent-encoded by Kafka's `Sanitizer`.
    """

    limit: float | None
    tags: Mapping[str, str]


class PrecedenceOracle:
    """A running quota manager, as a context manager."""

    def __init__(self, version: str = jars.NEWEST) -> None:
        """Start the JVM; `version` is 4.3.1 or newer, where the manager is a public Java class."""
        self._talk = Conversation(version, SOURCE)

    def resolve(
        self, cases: Iterable[tuple[Mapping[Entity, float], Sequence[Caller]]]
    ) -> list[list[Verdict]]:
        """Return, for each case (limits of one key by entity, callers), one verdict per caller, in order."""
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
        return [[_verdict(case_verdict) for case_verdict in case] for case in answer["cases"]]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._talk.close()


def _verdict(answer: Mapping[str, Any]) -> Verdict:
    limit = float(answer["limit"])
    return Verdict(limit=None if limit >= UNLIMITED else limit, tags=dict(answer["tags"]))
