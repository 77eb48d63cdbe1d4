"""Kafka's own `kafka-configs` against the sandbox, and the same commands against a real broker.

The tool describes before it alters, lists SCRAM users with quotas, and negotiates every version: its output
of both is compared line by line. Values and entities come in hash order, so lines are sorted.
"""

import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.sandbox import PROFILES, Listener, ListenerProtocol, Sandbox, SandboxSettings
from tests.contract.raw import RawConnection
from tests.contract.targets import AUTHORIZER, Target, running
from tests.servers.certs import Authority
from tests.servers.properties import USERS, login
from tests.servers.tools import Conversation, JavaSource

pytestmark = pytest.mark.integration

SOURCE = JavaSource(
    path=Path(__file__).parents[1] / "servers" / "oracle" / "ConfigCommands.java",
    class_name="ConfigCommands",
)

# Version of the tool -> profile of the sandbox and version of the broker.
PAIRS = {"3.4.1": ("3.4", "3.4.1"), "3.9.1": ("3.9", "3.9.1"), "4.3.1": ("4.x", "4.4.0")}

ALICE = ("--entity-type", "users", "--entity-name", "alice")
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("--describe", "--entity-type", "users"),
    ("--alter", *ALICE, "--add-config", "producer_byte_rate=1024,consumer_byte_rate=10000000"),
    (
        "--alter",
        "--entity-type",
        "users",
        "--entity-default",
        "--add-config",
        "request_percentage=12.5",
    ),
    (
        "--alter",
        *ALICE,
        "--entity-type",
        "clients",
        "--entity-name",
        "app",
        "--add-config",
        "producer_byte_rate=7",
    ),
    (
        "--alter",
        *ALICE,
        "--entity-type",
        "clients",
        "--entity-default",
        "--add-config",
        "controller_mutation_rate=0.5",
    ),
    (
        "--alter",
        "--entity-type",
        "clients",
        "--entity-name",
        "app",
        "--add-config",
        "consumer_byte_rate=5",
    ),
    ("--alter", "--client-defaults", "--add-config", "producer_byte_rate=9223372036854775807"),
    ("--alter", "--ip", "10.0.0.1", "--add-config", "connection_creation_rate=20"),
    ("--alter", "--ip-defaults", "--add-config", "connection_creation_rate=100"),
    ("--describe", "--entity-type", "users"),
    ("--describe", "--entity-type", "users", "--entity-default"),
    ("--describe", "--user", "alice", "--client", "app"),
    ("--describe", "--entity-type", "users", "--entity-type", "clients"),
    ("--describe", "--entity-type", "clients"),
    ("--describe", "--entity-type", "ips"),
    ("--alter", *ALICE, "--add-config", "producer_byte_rate=0.5"),
    ("--alter", "--ip", "10.0.0.0/8", "--add-config", "connection_creation_rate=20"),
    ("--alter", *ALICE, "--delete-config", "request_percentage"),
    (
        "--alter",
        *ALICE,
        "--delete-config",
        "producer_byte_rate",
        "--add-config",
        "request_percentage=200",
    ),
    ("--alter", *ALICE, "--delete-config", "consumer_byte_rate,request_percentage"),
    ("--describe", *ALICE),
)

FAILED = {"3.4.1": (0, 9, 15, 16, 17, 20)}
"""Commands that fail, by place; the tool of 3.4 requests SCRAM users from brokers without such an API."""

_VALUES = re.compile(r" are (?P<values>\S+=\S.*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """The output of one command, without order and addresses."""

    command: tuple[str, ...]
    code: int
    output: tuple[str, ...]
    errors: tuple[str, ...]


def comparable(text: str) -> tuple[str, ...]:
    """Sorted lines with sorted values, without ports and stack traces."""
    lines = []
    for line in text.splitlines():
        if line.startswith(("\tat ", "\t... ")):
            continue
        values = _VALUES.search(line)
        if values:
            ordered = ", ".join(sorted(values["values"].split(", ")))
            lines.append(f"{line[: values.start()]} are {ordered}")
        else:
            lines.append(re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", line))
    return tuple(sorted(lines))


def run(configs: Conversation, port: int, command: tuple[str, ...]) -> CommandResult:
    arguments = ("--bootstrap-server", f"127.0.0.1:{port}", *command)
    answer = configs.ask({"arguments": arguments})
    return CommandResult(
        command=command,
        code=answer["code"],
        output=comparable(answer["out"]),
        errors=comparable(answer["errors"]),
    )


def story(configs: Conversation, target: Target) -> list[CommandResult]:
    """All commands one after the other; each change is awaited."""
    results = []
    with RawConnection(target.port) as watching:
        for command in COMMANDS:
            before = watching.quotas()
            result = run(configs, target.port, command)
            results.append(result)
            if (
                command[0] == "--alter"
                and result.code == 0
                and "Completed" in "".join(result.output)
            ):
                changed(watching, before)
    return results


def changed(connection: RawConnection, before: object) -> None:
    for _ in range(10_000):
        if connection.quotas() != before:
            return
    raise AssertionError("the change did not become visible")


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(version, id=f"{version}-kafka-{broker}")
        for version, (_, broker) in PAIRS.items()
    ],
)
def test_the_same_commands_print_the_same_for_sandbox_and_broker(
    version: str, start_target: Callable[[str], Target]
) -> None:
    line, broker = PAIRS[version]
    targets = [start_target(f"sandbox-{line}"), start_target(f"kafka-{broker}")]
    for target in targets:
        target.clear()
    with Conversation(version, SOURCE) as configs:
        sandbox, real = (story(configs, target) for target in targets)
    assert sandbox == real
    failed = tuple(place for place, result in enumerate(real) if result.code != 0)
    assert failed == FAILED.get(version, (15, 16, 17))
    assert any("producer_byte_rate=1024.0" in text for result in real for text in result.output)
    for target in targets:
        target.clear()


def properties(path: Path, settings: Mapping[str, str]) -> str:
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), "utf-8")
    return str(path)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_java_logs_in_over_tls_with_every_mechanism(mechanism: str, tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.server("sandbox").bundle)
    door = Listener(name="SASL_SSL", protocol=ListenerProtocol.SASL_SSL, tls=context)
    settings = SandboxSettings(
        profile=PROFILES["4.x"], users=USERS, authorizer=AUTHORIZER, listeners=(door,)
    )
    with running(Sandbox(settings)) as sandbox:
        sandbox_port = sandbox.port()
        client = properties(
            tmp_path / "client.properties",
            {
                "security.protocol": "SASL_SSL",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(authority.certificate_file),
                "sasl.mechanism": mechanism,
                "sasl.jaas.config": login(mechanism, "applier", USERS["applier"]),
            },
        )
        command = ("--command-config", client, "--alter", "--user", "alice")
        command = (*command, "--add-config", "producer_byte_rate=5")
        with Conversation("4.3.1", SOURCE) as configs:
            result = run(configs, sandbox_port, command)
        assert (result.code, result.errors) == (0, ())
        assert result.output == ("Completed updating config for user alice.",)
        assert sandbox.values() == {(("user", "alice"),): {"producer_byte_rate": 5.0}}
