"""Secrets on every path: no log record at DEBUG, exception, repr, event, warning or output shows one."""

import asyncio
import base64
import gc
import io
import json
import logging
import pickle
import ssl
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reconciler.client import BearerToken, ClientConfig, QuotaClient, Secret, cluster_info
from reconciler.client.network.login import Login
from reconciler.client.network.requests import ResponseStatus
from reconciler.client.wire_translation import results_of
from reconciler.errors import KquotaError
from reconciler.quota.entity import entity
from reconciler.quota.state import Rejected
from reconciler.wire.apis import SASL_AUTHENTICATE, SASL_HANDSHAKE
from reconciler.wire.messages.alter_client_quotas import AlterClientQuotasResponse
from tests.client.auth.test_oidc import Endpoint, token
from tests.client.support import Recorder
from tests.fakes import scripted_broker as acts
from tests.fakes.clock import FakeClock
from tests.fakes.scripted_broker import ScriptedBroker
from tests.servers.certs import Authority

PLANTED = "pl4nted-S3cret"
GOOD = "good-pl4nted-S3cret"


class Net:
    """Collects all output that could contain a secret."""

    def __init__(self) -> None:
        self.records: list[logging.LogRecord] = []
        self.output = io.StringIO()
        self.recorder = Recorder()
        self.texts: list[str] = []

    def show(self, *things: object) -> None:
        """Print the representations that a person prints when debugging."""
        for thing in things:
            self.texts += [repr(thing), str(thing), f"{thing}"]
            if isinstance(thing, msgspec.Struct):
                self.texts.append(repr(msgspec.structs.asdict(thing)))

    def failed(self, error: BaseException) -> None:
        chain: BaseException | None = error
        while chain is not None:
            self.show(chain, chain.args, vars(chain))
            chain = chain.__cause__ or chain.__context__
        lines = traceback.TracebackException.from_exception(error).format()
        self.texts.append("".join(lines))

    def everything(self) -> str:
        logged = [
            f"{record.getMessage()} {record.args} {record.exc_info}" for record in self.records
        ]
        events = [repr(event) for _, event in self.recorder.entries]
        return "\n".join([*self.texts, *logged, *events, self.output.getvalue()])


@pytest.fixture
def net() -> Iterator[Net]:
    new_net = Net()
    handler = logging.Handler(level=logging.DEBUG)
    handler.emit = new_net.records.append
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.DEBUG)
    root.addHandler(handler)
    with redirect_stdout(new_net.output), redirect_stderr(new_net.output):
        yield new_net
    root.removeHandler(handler)
    root.setLevel(before)


def run(net: Net, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run in asyncio's debug mode, which logs most."""

    async def caught() -> None:
        asyncio.get_running_loop().slow_callback_duration = 10
        try:
            async with asyncio.timeout(60):
                await work()
        except KquotaError as error:
            net.failed(error)

    gc.freeze()  # only objects of this run are searched
    asyncio.run(caught(), debug=True)
    gc.collect()


def settings(broker: ScriptedBroker, **more: object) -> dict[str, object]:
    return {
        "bootstrap.servers": broker.address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": PLANTED,
        "retry.backoff.ms": 1,
        "reconnect.backoff.ms": 1,
    } | {key.replace("_", "."): value for key, value in more.items()}


async def use(net: Net, config: ClientConfig, deadline: float = 30.0) -> None:
    net.show(config, config.sasl, config.tls, config.warnings)
    async with QuotaClient(config, events=net.recorder.events()) as our:
        net.show(our, our._connections, our._connections.login)
        try:
            net.show(await our.describe(timeout=deadline))
        finally:
            working = our._connections._connections.get(None)
            if working is not None:
                net.show(working, working._session, working._transport)


def refusal(words: bytes) -> acts.Act:
    """SASL_AUTHENTICATION_FAILED with the broker's own message, in version 2 of SaslAuthenticate."""
    return acts.body(b"\x00\x3a" + bytes([len(words) + 1]) + words + b"\x01" + bytes(8) + b"\x00")


ECHOES = {
    "raw": f"Invalid credentials: |alice|{PLANTED}|".encode(),
    "token": b"cannot read " + base64.b64encode(f"\0alice\0{PLANTED}".encode()),
    "cut": f"Invalid credentials: {PLANTED[:9]}...".encode(),
    "hexadecimal": PLANTED.encode().hex().encode(),
}


@pytest.mark.parametrize("echo", ECHOES)
def test_a_broker_message_that_contains_the_password_is_quoted_without_it(
    net: Net, echo: str
) -> None:
    async def work() -> None:
        async with ScriptedBroker(password="other") as broker:  # noqa: S106 - the scripted broker's
            broker.on(SASL_AUTHENTICATE, refusal(ECHOES[echo]))
            await use(net, ClientConfig.from_mapping(settings(broker)))

    run(net, work)
    assert "PLAIN failed: " in net.everything()
    assert "<hidden>" in net.everything()
    for secret in (
        PLANTED,
        PLANTED[:9],
        PLANTED.encode().hex(),
        base64.b64encode(PLANTED.encode())[4:12],
    ):
        assert str(secret) not in net.everything()


def test_a_broker_message_about_a_request_is_quoted_without_the_password() -> None:
    config = ClientConfig.from_mapping(settings(ScriptedBroker(port=1)))
    scrubbed = Login(config, FakeClock()).scrubbed
    refused = cluster_info.CLUSTER.refusal(
        ResponseStatus(code=42, message=f"who is {PLANTED}?"), "b:1", scrubbed
    )
    assert str(refused).endswith("who is <hidden>?")
    alice = entity(user="alice")
    result = results_of(
        AlterClientQuotasResponse(
            throttle_time_ms=0, results=(((("user", "alice"),), 42, f"no {PLANTED}"),)
        ),
        {(("user", "alice"),): alice},
        scrubbed,
    )
    assert result[alice] == Rejected(code=42, name="INVALID_REQUEST", message="no <hidden>")


FAULTS: dict[str, tuple[acts.Act, ...]] = {
    "nothing": (),
    "hangs up": (acts.close,) * 20,
    "resets": (acts.reset,) * 20,
    "is silent": (acts.silence,) * 20,
    "has the wrong number": (acts.wrong_id,),
    "cuts the answer": (acts.truncated(1),),
    "speaks http": (acts.raw(b"HTTP/1.1 400 Bad\r\n"),),
    "repeats the token": (acts.body(b"\x00\x3a\x0dalice" + PLANTED.encode() + b"\x00" * 12),),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("api", [SASL_HANDSHAKE, SASL_AUTHENTICATE], ids=lambda api: api.name)
@pytest.mark.parametrize("right", [True, False], ids=["right", "wrong"])
def test_login_by_password_shows_no_secret(net: Net, fault: str, api: Any, right: bool) -> None:
    async def work() -> None:
        async with ScriptedBroker(password=PLANTED if right else "other") as broker:
            broker.on(api, *FAULTS[fault])
            await use(net, ClientConfig.from_mapping(settings(broker)), 0.2)

    run(net, work)
    assert PLANTED not in net.everything()
    assert not any(
        event.api.startswith("Sasl")
        for event in net.recorder.of("request") + net.recorder.of("response")
    )


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_login_by_scram_shows_no_secret(net: Net, mechanism: str) -> None:
    async def work() -> None:
        async with ScriptedBroker(password=PLANTED) as broker:
            await use(net, ClientConfig.from_mapping(settings(broker, sasl_mechanism=mechanism)))

    run(net, work)
    assert PLANTED not in net.everything()


def test_repeated_login_shows_no_secret(net: Net) -> None:
    async def work() -> None:
        async with ScriptedBroker(password=PLANTED, lifetime_ms=1100) as broker:
            config = ClientConfig.from_mapping(settings(broker))
            async with QuotaClient(config, events=net.recorder.events()) as our:
                await our.describe()
                broker.password = "changed"  # noqa: S105 - the scripted broker's
                while True:
                    await our.describe()

    run(net, work)
    assert net.recorder.of("authenticated")
    assert any("AuthenticationError" in text for text in net.texts)
    assert PLANTED not in net.everything()


@pytest.mark.parametrize(
    "answers",
    [
        [(200, token(GOOD))],
        [(401, json.dumps({"error": PLANTED, "error_description": PLANTED * 9}).encode())],
        [(200, token(f"bad {PLANTED}"))],
        [(200, PLANTED.encode())],
        [(500, PLANTED.encode())] * 99,
    ],
    ids=["good", "refused", "bad token", "no json", "broken"],
)
def test_login_by_token_shows_no_secret(net: Net, answers: list[tuple[int, bytes]]) -> None:
    endpoint = Endpoint()
    endpoint.answers = answers

    async def work() -> None:
        async with ScriptedBroker(password="x") as broker:  # noqa: S106 - the scripted broker's
            properties = {
                "bootstrap.servers": broker.address,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": endpoint.url,
                "sasl.oauthbearer.client.id": "c",
                "sasl.oauthbearer.client.secret": PLANTED,
                "sasl.login.retry.backoff.max.ms": 200,
            }
            await use(net, ClientConfig.from_mapping(properties), 2.0)

    try:
        run(net, work)
    finally:
        endpoint.stop()
    assert PLANTED not in net.everything()
    assert endpoint.requests


def test_a_token_of_the_caller_is_not_shown(net: Net) -> None:
    async def source() -> BearerToken:
        bearer_token = BearerToken(value=Secret(GOOD))
        net.show(bearer_token)
        return bearer_token

    async def work() -> None:
        async with ScriptedBroker(password="x") as broker:  # noqa: S106 - the scripted broker's
            properties = {
                "bootstrap.servers": broker.address,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
            }
            await use(net, ClientConfig.from_mapping(properties, token=source))

    run(net, work)
    assert PLANTED not in net.everything()


def test_tls_with_a_private_key_shows_no_secret(net: Net, tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    identity = authority.client("alice")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.server("s").bundle)
    line = identity.key.read_text().splitlines()[1]

    async def work() -> None:
        async with ScriptedBroker(tls=context) as broker:
            properties = {
                "bootstrap.servers": broker.address,
                "security.protocol": "SSL",
                "ssl.truststore.location": authority.certificate_file,
                "ssl.keystore.location": identity.bundle,
                "ssl.key.password": PLANTED,
            }
            await use(net, ClientConfig.from_mapping(properties))

    run(net, work)
    assert PLANTED not in net.everything()
    assert line not in net.everything()


JAAS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="{}"{}'
)
BAD_FILES = {
    "open quote": f"sasl.jaas.config={JAAS.format(PLANTED, '')[:-1]}",
    "no semicolon": f"sasl.jaas.config={JAAS.format(PLANTED, '')}",
    "no mechanism": f"sasl.jaas.config={JAAS.format(PLANTED, ';')}",
    "unknown key": f"sasl.pasword={PLANTED}\nsasl.mechanism=PLAIN",
    "wrong mechanism": f"sasl.mechanism=GSSAPI\nsasl.jaas.config={JAAS.format(PLANTED, ';')}",
    "bad reference": f"sasl.mechanism=PLAIN\nsasl.password={PLANTED}${{env:NO_SUCH}}",
    "contradiction": f"ssl.keystore.key={PLANTED}\nssl.key.pem={PLANTED}2",
    "bad escape": f"sasl.password={PLANTED}\\u12",
    "bad key": f"security.protocol=SSL\nssl.keystore.key={PLANTED}\nssl.keystore.certificate.chain={PLANTED}",
    "bad trust": f"security.protocol=SSL\nssl.truststore.certificates={PLANTED}",
    "bad url": f"sasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=https://u:{PLANTED}@x/\nsasl.oauthbearer.client.id=c\nsasl.oauthbearer.client.secret={PLANTED}",
    "bad proxy": f"proxy.url={PLANTED}\nsasl.mechanism=PLAIN",
}


@pytest.mark.parametrize("fault", BAD_FILES)
def test_invalid_files_show_no_secret(net: Net, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    head = "bootstrap.servers=b:1\n"
    if "security.protocol" not in BAD_FILES[fault]:
        head += "security.protocol=SASL_SSL\n"
    path.write_text(head + BAD_FILES[fault])
    try:
        net.show(ClientConfig.from_properties(path))
    except KquotaError as error:
        net.failed(error)
    assert net.texts
    assert PLANTED not in net.everything()


def test_a_configuration_with_secrets_cannot_be_pickled() -> None:
    config = ClientConfig.from_mapping(settings(ScriptedBroker(port=1)))
    with pytest.raises(TypeError):
        pickle.dumps(config)
