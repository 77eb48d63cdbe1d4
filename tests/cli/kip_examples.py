"""KIP-546's examples: a fixture, a command line, and the output in the KIP.

The resolve example contradicts the describe one (values and levels differ), so each has its own fixture. The KIP
puts a blank line between entities and none at the end.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """One example of the KIP."""

    # The quotas of the cluster, as (parts, values).
    before: tuple[tuple[tuple[tuple[str, str | None], ...], dict[str, float]], ...]
    arguments: tuple[str, ...]  # the command line
    prints: str  # standard output, exactly


DESCRIBE = Example(
    before=(
        (
            (("user", "user-one"), ("client-id", "my-client")),
            {"producer_byte_rate": 1_000_000, "consumer_byte_rate": 4_000_000},
        ),
        ((("user", "user-two"), ("client-id", "my-client")), {"producer_byte_rate": 2_000_000}),
        (
            (("user", None), ("client-id", "my-client")),
            {"producer_byte_rate": 500_000, "consumer_byte_rate": 1_000_000},
        ),
        ((("user", "user-one"), ("client-id", "other-client")), {"producer_byte_rate": 7}),
    ),
    arguments=("--describe", "--names=client-id=my-client"),
    prints="""\
{user=user-one, client-id=my-client}
consumer_byte_rate=4000000
producer_byte_rate=1000000

{user=user-two, client-id=my-client}
producer_byte_rate=2000000

{user=<default>, client-id=my-client}
consumer_byte_rate=1000000
producer_byte_rate=500000
""",
)

RESOLVE = Example(
    before=(
        ((("user", "user-two"), ("client-id", "my-client")), {"consumer_byte_rate": 2_000_000}),
        (
            (("user", None), ("client-id", "my-client")),
            {"producer_byte_rate": 500_000, "consumer_byte_rate": 1_000_000},
        ),
    ),
    arguments=("--resolve", "--names=user=user-two,client-id=my-client"),
    prints="""\
consumer_byte_rate=2000000 {user=user-two, client-id=my-client}
producer_byte_rate=500000 {user=<default>, client-id=my-client}
""",
)

ALTER = Example(
    before=(
        (
            (("user", None), ("client-id", "my-client")),
            {"producer_byte_rate": 500_000, "consumer_byte_rate": 1_000_000},
        ),
    ),
    arguments=(
        "--alter",
        "--names=client-id=my-client",
        "--defaults=user",
        "--add=consumer_byte_rate=2000000",
        "--delete=producer_byte_rate",
    ),
    prints="",
)

DESCRIBE_AFTER_ALTER = Example(
    before=((((("user", None), ("client-id", "my-client"))), {"consumer_byte_rate": 2_000_000}),),
    arguments=("--describe", "--names=client-id=my-client", "--defaults=user"),
    prints="""\
{user=<default>, client-id=my-client}
consumer_byte_rate=2000000
""",
)

EXAMPLES = {
    "describe": DESCRIBE,
    "resolve": RESOLVE,
    "alter": ALTER,
    "describe after alter": DESCRIBE_AFTER_ALTER,
}
