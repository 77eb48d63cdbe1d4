"""The fixture of the contract: the same tests run against sandboxes (no Java) and real brokers (integration)."""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from reconciler.sandbox import PROFILES
from tests.contract.targets import REAL, Target, lines_of, mechanisms_of, sandbox_target
from tests.servers.kafka import StartKafka
from tests.servers.properties import USERS

LISTENERS = ("PLAINTEXT", "SASL_PLAINTEXT")
TARGETS = [
    *(pytest.param(f"sandbox-{name}", id=f"sandbox-{name}") for name in PROFILES),
    *(
        pytest.param(f"kafka-{version}", id=f"kafka-{version}", marks=pytest.mark.integration)
        for version in REAL
    ),
]


@pytest.fixture(scope="session")
def start_target(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Target]]:
    """Targets by name, each started once."""
    running: dict[str, Target] = {}
    with contextlib.ExitStack() as stack:

        def start(name: str) -> Target:
            kind, _, which = name.partition("-")
            if kind == "kafka":
                kafka: StartKafka = request.getfixturevalue("kafka")
                return real_target(kafka, which)
            if name not in running:
                running[name] = stack.enter_context(sandbox_target(which))
            return running[name]

        yield start


def real_target(kafka: StartKafka, version: str) -> Target:
    """A shared broker of that version."""
    cluster = kafka(version, listeners=LISTENERS, acls=True)
    return Target(
        name=f"kafka-{version}",
        lines=lines_of(version),
        port=cluster.port(),
        sasl_port=cluster.port(1, "SASL_PLAINTEXT"),
        users=USERS,
        mechanisms=mechanisms_of(lines_of(version)[0]),
        cluster_id=cluster.cluster_id,
    )


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest, start_target: Callable[[str], Target]) -> Target:
    """Each target in turn, with the quotas of earlier tests."""
    return start_target(request.param)


@pytest.fixture
def empty(target: Target) -> Target:
    """Each target in turn, without any quota."""
    target.clear()
    return target
