"""The operations of a soak and their times, derived from a seed: equal seeds give equal operations in equal order."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

KEYS: Final = ("producerByteRate", "consumerByteRate", "requestPercentage")
VALUES: Final = (2048, 4096, 8192, 16384, 65536)
NAMESPACES: Final = 3
SHARE_OF_DELETE: Final = 0.7

Limits = dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One operation or fault.

    Attributes:
        at: Seconds after the start.
        verb: `create`, `update`, `suspend`, `delete`, or the name of a fault.
        document: Name of the document; "" for a fault.
        namespace: Number of its namespace.
        user: User whose quota it declares.
        limits: Declared limits.
        deletion_policy: deletionPolicy of a new document.
        suspended: For `suspend`: whether it is suspended from now on.
        seconds: Duration of a fault that ends.
    """

    at: float
    verb: str
    document: str = ""
    namespace: int = 0
    user: str = ""
    limits: Limits = field(default_factory=dict)
    deletion_policy: str = ""
    suspended: bool = False
    seconds: float = 0.0

    @property
    def is_fault(self) -> bool:
        """Whether the step changes no document."""
        return not self.document


FAULTS: Final = (
    ("kill operator", 5, 0.0, 0.0),
    ("terminate operator", 2, 0.0, 0.0),
    ("pause broker", 4, 0.5, 12.0),
    ("kill broker", 1, 1.0, 6.0),
    ("drop API connections", 5, 0.0, 0.0),
    ("refuse API connections", 3, 0.5, 8.0),
    ("delay API", 3, 1.0, 8.0),
)
"""Name, weight, and minimum and maximum seconds."""


@dataclass(slots=True)
class _Document:
    name: str
    namespace: int
    user: str
    limits: Limits
    deletion_policy: str
    suspended: bool = False


def operations(seed: int, *, seconds: float, documents: int, rate: float = 6.0) -> Iterator[Step]:
    """The operations of users, in the order of time; at the end no document is suspended.

    Args:
        seed: Seed of the random numbers.
        seconds: Duration.
        documents: Maximum number of live documents.
        rate: Operations per second.
    """
    draw = random.Random(f"operations {seed}")
    live: list[_Document] = []
    count, at = 0, 0.0
    while (at := at + draw.expovariate(rate)) < seconds:
        choice = draw.random()
        if not live or (choice < 0.3 and len(live) < documents):
            count += 1
            declaration = _new(draw, count)
            live.append(declaration)
            yield _created(at, declaration)
        elif choice < 0.7:
            declaration = draw.choice(live)
            declaration.limits = _limits(draw)
            yield Step(
                at=at,
                verb="update",
                document=declaration.name,
                namespace=declaration.namespace,
                user=declaration.user,
                limits=dict(declaration.limits),
            )
        elif choice < 0.75:
            declaration = draw.choice(live)
            declaration.suspended = not declaration.suspended
            yield _suspension(at, declaration)
        else:
            declaration = live.pop(draw.randrange(len(live)))
            yield Step(
                at=at,
                verb="delete",
                document=declaration.name,
                namespace=declaration.namespace,
                user=declaration.user,
            )
            if draw.random() < 0.35 and declaration.deletion_policy == "Delete":
                count += 1
                again = _new(draw, count, user=declaration.user)
                if draw.random() < 0.5:
                    again.limits = dict(declaration.limits)
                live.append(again)
                yield _created(at, again)
    for declaration in live:
        if declaration.suspended:
            declaration.suspended = False
            yield _suspension(seconds, declaration)


def faults(seed: int, *, seconds: float, every: float) -> Iterator[Step]:
    """The faults, in the order of time; none lasts longer than the soak.

    Args:
        seed: Seed of the random numbers.
        seconds: Duration.
        every: Mean time between the starts of two faults.
    """
    draw = random.Random(f"faults {seed}")
    at = 2.0
    weights = [weight for _, weight, _, _ in FAULTS]
    while (at := at + draw.uniform(0.2, 1.8) * every) < seconds - 1.0:
        name, _, least, most = draw.choices(FAULTS, weights)[0]
        yield Step(at=at, verb=name, seconds=min(draw.uniform(least, most), seconds - at))


def _new(draw: random.Random, number: int, *, user: str = "") -> _Document:
    return _Document(
        name=f"d{number:05}",
        namespace=draw.randrange(NAMESPACES),
        user=user or f"u{number:05}",
        limits=_limits(draw),
        deletion_policy="Delete" if user or draw.random() < SHARE_OF_DELETE else "Retain",
    )


def _limits(draw: random.Random) -> Limits:
    return {
        key: draw.choice(VALUES[:3] if key == KEYS[2] else VALUES)
        for key in draw.sample(KEYS, draw.randint(1, 2))
    }


def _created(at: float, declaration: _Document) -> Step:
    return Step(
        at=at,
        verb="create",
        document=declaration.name,
        namespace=declaration.namespace,
        user=declaration.user,
        limits=dict(declaration.limits),
        deletion_policy=declaration.deletion_policy,
    )


def _suspension(at: float, declaration: _Document) -> Step:
    return Step(
        at=at,
        verb="suspend",
        document=declaration.name,
        namespace=declaration.namespace,
        user=declaration.user,
        suspended=declaration.suspended,
    )
