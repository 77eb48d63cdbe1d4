"""The configuration of a Prometheus client: Prometheus' own fields, read strictly; values are never reported."""

import asyncio
import base64
import ssl
from pathlib import Path

import pytest

from reconciler.errors import TelemetryError
from reconciler.evidence.ingest.readers import http_config
from reconciler.evidence.ingest.readers.http_config import HttpConfig
from reconciler.evidence.ingest.readers.prometheus import PrometheusClient
from tests.fakes.clock import FakeClock
from tests.fakes.prometheus import FakePrometheus
from tests.servers.certs import Authority

PLANTED = "correct-horse"


def read(tmp_path: Path, text: str) -> HttpConfig:
    path = tmp_path / "http.yml"
    path.write_text(text)
    return http_config.read(path)


@pytest.mark.parametrize(
    ("text", "header"),
    [
        (f"authorization: {{credentials: {PLANTED}}}", f"Bearer {PLANTED}"),
        (f"authorization: {{type: Token, credentials: {PLANTED}}}", f"Token {PLANTED}"),
        ("authorization: {credentials_file: secret.txt}", f"Bearer {PLANTED}"),
        (f"bearer_token: {PLANTED}", f"Bearer {PLANTED}"),
        ("bearer_token_file: secret.txt", f"Bearer {PLANTED}"),
        (
            f'{{"basic_auth": {{"username": "u", "password": "{PLANTED}"}}}}',
            "Basic " + base64.b64encode(f"u:{PLANTED}".encode()).decode(),
        ),
        (
            "basic_auth: {username: u, password_file: secret.txt}",
            "Basic " + base64.b64encode(f"u:{PLANTED}".encode()).decode(),
        ),
    ],
)
def test_authorization_is_read_in_the_format_of_prometheus(
    tmp_path: Path, text: str, header: str
) -> None:
    (tmp_path / "secret.txt").write_text(PLANTED + "\n")
    config = read(tmp_path, text)
    assert config.headers == {"Authorization": header}
    assert config.authorized
    assert PLANTED not in repr(config)
    text_without_secrets = config.hidden_in(f"a {PLANTED} b {header}")
    assert PLANTED not in text_without_secrets
    assert header.split()[1] not in text_without_secrets


def test_a_header_that_names_a_tenant_is_no_credential(tmp_path: Path) -> None:
    config = read(tmp_path, "headers: {X-Scope-OrgID: tenant-1}\n")
    assert config.headers == {"X-Scope-OrgID": "tenant-1"}
    assert not config.authorized


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("Authorization", True),
        ("authorization", True),
        ("Cookie", True),
        ("X-Api-Key", True),
        ("PRIVATE-TOKEN", True),
        ("X-Anything", True),
        ("x-scope-orgid", False),
        ("THANOS-TENANT", False),
        ("AccountID", False),
        ("User-Agent", False),
    ],
)
def test_every_header_that_may_contain_a_key_is_a_credential(
    tmp_path: Path, name: str, *, counts: bool
) -> None:
    config = read(tmp_path, f"headers: {{{name}: {PLANTED}}}")
    assert config.authorized is counts
    assert PLANTED not in config.hidden_in(f"a {PLANTED}")
    if counts:
        with pytest.raises(TelemetryError, match="unencrypted"):
            PrometheusClient("http://prometheus:9090", clock=FakeClock(), config=config)


def test_an_empty_file_sets_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, "") == HttpConfig()


def test_short_secrets_are_not_scrubbed(tmp_path: Path) -> None:
    assert read(tmp_path, "bearer_token: ab").hidden_in("a cab") == "a cab"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"authorisation: {{credentials: {PLANTED}}}", "'authorisation'"),
        (f"basic_auth: {{user: u, password: {PLANTED}}}", "'user'"),
        (f"basic_auth: {{password: {PLANTED}}}", "either username or username_file"),
        (
            f"bearer_token: {PLANTED}\nauthorization: {{credentials: {PLANTED}}}",
            "only one of authorization and bearer_token",
        ),
        (f"bearer_token: {PLANTED}\nbearer_token_file: x", "only one of bearer_token and"),
        (
            f"authorization: {{credentials: {PLANTED}, credentials_file: x}}",
            "either credentials or",
        ),
        ("authorization: {credentials_file: gone.txt}", "cannot be read"),
        ("basic_auth: {username: u, password: 12345678}", "should be str"),
        (f'bearer_token: "{PLANTED}\\nX-Other: 1"', "line break"),
        (f'headers: {{X-Key: "{PLANTED}\\nX-Other: 1"}}', "no header can carry"),
        (f'headers: {{"X Key": {PLANTED}}}', "no header can carry"),
        (
            f"bearer_token: {PLANTED}\nheaders: {{authorization: {PLANTED}}}",
            "only one of bearer_token and headers.Authorization",
        ),
        (f"- {PLANTED}", "should be object"),
        ("oauth2: {}", "'oauth2'"),
        ("proxy_url: http://proxy:3128", "'proxy_url'"),
        ("tls_config: {cert_file: x}", "belong together"),
        ("tls_config: {ca_file: gone.pem}", "usable files"),
        ('tls_config: {insecure_skip_verify: "yes"}', "should be bool"),
        (f"bearer_token: {PLANTED}\nbearer_token: {PLANTED}", "is given twice"),
        ("a: b\n---\nc: d", "more than one document"),
    ],
)
def test_an_error_is_named_without_showing_a_value(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TelemetryError) as wrong:
        read(tmp_path, text)
    assert message in wrong.value.message
    assert "http.yml" in wrong.value.message
    assert PLANTED not in str(wrong.value)


def test_a_value_that_yaml_reads_as_a_number_is_explained(tmp_path: Path) -> None:
    with pytest.raises(TelemetryError) as wrong:
        read(tmp_path, "basic_auth: {username: u, password: 12345678}")
    assert "needs quotes" in wrong.value.hint


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(TelemetryError, match=r"gone\.yml"):
        http_config.read(tmp_path / "gone.yml")


def test_verification_is_disabled_only_explicitly(tmp_path: Path) -> None:
    usual = read(tmp_path, "tls_config: {server_name: prometheus.internal}")
    assert usual.tls is not None
    assert usual.tls.verify_mode is ssl.CERT_REQUIRED
    assert usual.tls.check_hostname
    assert usual.server_name == "prometheus.internal"
    open_one = read(tmp_path, "tls_config: {insecure_skip_verify: true}")
    assert open_one.tls is not None
    assert open_one.tls.verify_mode is ssl.CERT_NONE


def fetched(config: HttpConfig, tls: ssl.SSLContext) -> int:
    async def count_series() -> int:
        server = FakePrometheus(tls=tls)
        server.put("m", [(1_700_000_000_000, "1")])
        async with server, PrometheusClient(server.url, clock=FakeClock(), config=config) as client:
            return len(await client.raw('{__name__="m"}', 1_700_000_000_000, 1_700_000_001_000))

    return asyncio.run(count_series())


def test_authorities_and_certificates_of_a_file_are_used(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "ca")
    server_files, client_files = authority.server("prometheus"), authority.client("kquota")
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate_file)
    server.load_cert_chain(server_files.certificate, server_files.key)
    server.verify_mode = ssl.CERT_REQUIRED
    text = f"ca_file: {authority.certificate_file}, cert_file: {client_files.certificate}, key_file: {client_files.key}"
    assert fetched(read(tmp_path, f"tls_config: {{{text}}}"), server) == 1


def test_a_certificate_of_an_unknown_authority_is_refused_immediately(tmp_path: Path) -> None:
    own = Authority.make(tmp_path / "ca").server("prometheus")
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(own.certificate, own.key)
    with pytest.raises(TelemetryError, match="certificate") as refused:
        fetched(HttpConfig(), server)
    assert not refused.value.retriable
    assert fetched(read(tmp_path, "tls_config: {insecure_skip_verify: true}"), server) == 1
