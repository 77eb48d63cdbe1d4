"""TLS with real brokers: valid and invalid certificates of broker and client."""

import time
from pathlib import Path

import pytest

from reconciler.client import ClientConfig, QuotaClient
from reconciler.errors import KquotaError
from tests.client.support import Recorder, on_loop
from tests.servers.certs import KEY_PASSWORD, Authority
from tests.servers.jars import NEWEST
from tests.servers.kafka import KafkaCluster, StartKafka
from tests.servers.properties import Listener

pytestmark = pytest.mark.integration

AT_ONCE_SECONDS = 600.0
"""Half of the deadline of a call here: an error that is repeated until the deadline takes longer on any machine."""
PATIENT = {"default.api.timeout.ms": "1200000"}
DEMANDING = {"listener.name.ssl.ssl.client.auth": "required"}


@pytest.fixture
def cluster(kafka: StartKafka) -> KafkaCluster:
    return kafka(NEWEST, listeners=tuple(Listener))


@pytest.fixture
def demanding(kafka: StartKafka) -> KafkaCluster:
    return kafka(NEWEST, listeners=(Listener.PLAINTEXT, Listener.SSL), extra=DEMANDING)


async def fails(settings: dict[str, str]) -> KquotaError:
    started = time.monotonic()
    async with QuotaClient(ClientConfig.from_mapping(settings | PATIENT)) as our:
        with pytest.raises(KquotaError) as caught:
            await our.describe()
    assert time.monotonic() - started < AT_ONCE_SECONDS
    return caught.value


@on_loop
async def test_a_tls_connection_is_established(cluster: KafkaCluster) -> None:
    recorder = Recorder()
    config = ClientConfig.from_mapping(cluster.client_properties(Listener.SSL))
    async with QuotaClient(config, events=recorder.events()) as our:
        assert (await our.cluster()).id == cluster.cluster_id
    assert recorder.of("connected")[0].tls.startswith("TLSv1.")


@pytest.mark.parametrize("form", ["bundle", "files", "encrypted", "pkcs12", "jks"])
@on_loop
async def test_mutual_tls_works_with_every_form_of_identity(
    demanding: KafkaCluster, form: str
) -> None:
    assert demanding.authority is not None
    identity = demanding.authority.client("alice")
    identity_settings = {
        "bundle": lambda: {
            "ssl.keystore.location": str(identity.bundle),
            "ssl.keystore.type": "PEM",
        },
        "files": lambda: {
            "ssl.certificate.location": str(identity.certificate),
            "ssl.key.location": str(identity.key),
        },
        "encrypted": lambda: {
            "ssl.keystore.certificate.chain": identity.certificate.read_text(),
            "ssl.keystore.key": identity.encrypted_key.read_text(),
            "ssl.key.password": KEY_PASSWORD,
        },
        "pkcs12": lambda: {
            "ssl.keystore.location": str(identity.pkcs12()),
            "ssl.keystore.password": KEY_PASSWORD,
        },
        "jks": lambda: {
            "ssl.keystore.location": str(identity.jks()),
            "ssl.keystore.password": KEY_PASSWORD,
        },
    }[form]()
    settings = demanding.client_properties(Listener.SSL) | identity_settings
    async with QuotaClient(ClientConfig.from_mapping(settings)) as our:
        assert (await our.cluster()).id == demanding.cluster_id


@on_loop
async def test_a_broker_that_requires_a_client_certificate_is_reported(
    demanding: KafkaCluster,
) -> None:
    error = await fails(demanding.client_properties(Listener.SSL))
    assert "certificate" in error.message + error.hint
    assert "ssl.keystore" in error.hint


@on_loop
async def test_a_broker_that_does_not_trust_the_client_certificate_is_reported(
    demanding: KafkaCluster, tmp_path: Path
) -> None:
    stranger = Authority.make(tmp_path).client("mallory")
    settings = demanding.client_properties(Listener.SSL)
    error = await fails(settings | {"ssl.keystore.location": str(stranger.bundle)})
    assert "certificate" in error.message + error.hint
    assert "ssl.keystore" in error.hint


@on_loop
async def test_plaintext_to_a_tls_listener_is_recognised(cluster: KafkaCluster) -> None:
    error = await fails({"bootstrap.servers": cluster.bootstrap(Listener.SSL)})
    assert "expects TLS" in error.hint


@on_loop
async def test_tls_to_a_plaintext_listener_is_recognised(cluster: KafkaCluster) -> None:
    settings = cluster.client_properties(Listener.SSL)
    error = await fails(settings | {"bootstrap.servers": cluster.bootstrap()})
    assert "does not seem to use TLS" in error.hint
