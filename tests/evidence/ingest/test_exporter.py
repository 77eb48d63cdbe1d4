"""The shipped rules of the JMX agent on real brokers: every client name is decoded to its original."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from reconciler.evidence.ingest.dialect import percent_decoded, unquoted
from reconciler.quota.entity import DEFAULT, entity
from tests.recording import broker_run
from tests.servers import exporter, raw_quotas, tools
from tests.servers.kafka import KafkaCluster
from tests.servers.processes import Child, ScratchFolder
from tests.servers.prometheus import Prometheus, until
from tests.servers.properties import Listener

FORGED = (
    "plain-app_1.0",
    'x",user="admin',
    "a,b",
    "a=b",
    'quote"',
    '"quoted"',
    "line\nbreak",
    "star*",
    "what?",
    "größe/ü",
    "雪 😀",
    "<default>",
    "back\\slash\\",
    "x, client-id=y",
    "x, user=admin",
    '"><>byte-rate: 1.0',
    "kafka.server<type=Fetch, user=admin><>byte-rate: 9.0",
    "kafka.server<type=Produce, user=admin, client-id=plain-app_1.0><>byte-rate",
    "two  blanks",
    "tab\there",
    "%41",
    "$1${2}",
)
"""Client ids that look like something else; each sends one record, half as large again as the previous one."""

LOST = ("carriage\rreturn", "line\u2028separator")
"""Kafka registers no bean for these: metrics.jmx.include is ``.*``, whose dot does not match them; ``(?s).*`` does."""

EVERYTHING = {"metrics.jmx.include": "(?s).*"}

LEAST, GROWTH, WINDOW_SECONDS = 200, 1.4, 10
USERS = {"admin": "a", "team-1": "b"}
PHASES = {"pair": entity(user=DEFAULT, client_id=DEFAULT), "client": entity(client_id=DEFAULT)}
NAMES = {
    "kafka_server_client_quota_byte_rate",
    "kafka_server_client_quota_request_time",
    "kafka_server_client_quota_mutation_rate",
    "kafka_server_client_quota_throttle_time_ms",
    "kafka_server_ip_connection_accept_rate",
    "kafka_server_broker_topic_bytes_in_total",
    "kafka_server_broker_topic_bytes_out_total",
    "kafka_server_broker_topic_replication_bytes_in_total",
    "kafka_server_broker_topic_replication_bytes_out_total",
    "kafka_server_request_handler_idle_ratio",
}
KEYS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)


class Sent(NamedTuple):
    user: str
    client_id: str
    size: int


def sizes() -> dict[str, int]:
    return {name: int(LEAST * GROWTH**place) for place, name in enumerate(FORGED)}


@pytest.fixture(
    scope="module", params=[("4.4.0", EVERYTHING), ("3.9.1", {})], ids=["4.4.0", "3.9.1"]
)
def broker(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    listeners = (Listener.PLAINTEXT, Listener.SASL_PLAINTEXT, Listener.SSL)
    version, extra = request.param
    with KafkaCluster(
        version, listeners=listeners, users=USERS, metrics=exporter.SHIPPED, extra=extra
    ) as running:
        yield running


@pytest.fixture
def cluster(broker: KafkaCluster) -> KafkaCluster:
    """The broker without limits, because limits of another test would determine the tags."""
    raw_quotas.clear(broker.port())
    return broker


def send(cluster: KafkaCluster, streams: list[dict[str, object]]) -> None:
    """Send each stream's records, and wait until all are acknowledged."""
    plan = {"lastsMs": 45_000, "streams": streams}
    with ScratchFolder.make("forged-") as scratch:
        (scratch / "plan").write_text(json.dumps(plan), encoding="utf-8")
        words = tools.command(
            cluster.version, broker_run.DRIVER, str(scratch / "plan"), str(scratch / "records")
        )
        child = Child(words, log=scratch / "log")
        assert child.ended_within(broker_run.READY_SECONDS + 45), child.log_text()
        assert child.process.returncode == 0, child.log_text()
        rows = (scratch / "records").read_text().splitlines()
    assert all(int(row.split(",")[4]) > 0 for row in rows), "not acknowledged"


def stream(properties: dict[str, str], client_id: str, size: int) -> dict[str, object]:
    return {
        "properties": properties | {"client.id": client_id, "linger.ms": "0"},
        "consumer": None,
        "topic": "forged",
        "partition": 0,
        "dueMs": [0],
        "bytes": [size],
    }


def decoded(
    series: dict[frozenset[tuple[str, str]], float], kind: str
) -> dict[tuple[str, str], float]:
    """(user, client id) -> rate of all series of a type; names that cannot be decoded fail."""
    rates = {}
    for pairs, value in series.items():
        labels = dict(pairs)
        if labels.pop("type") != kind:
            continue
        user = percent_decoded(labels.pop("user", ""))
        client_id = unquoted(labels.pop("client_id", ""))
        assert user is not None, pairs
        assert client_id is not None, pairs
        assert (user, client_id) not in rates, "two series of one bucket"
        assert not set(labels) - {"cluster", "instance", "job", "__name__"}, labels
        rates[user, client_id] = value
    return rates


@pytest.mark.integration
@pytest.mark.parametrize("level", PHASES)
def test_every_forged_client_id_has_its_own_bytes_under_its_own_name(cluster, level):
    broker_run.alter(
        cluster.bootstrap(),
        [
            (subject, "producer_byte_rate", 1e15 if which == level else None)
            for which, subject in PHASES.items()
        ],
    )
    before = set(rates_of(cluster))
    login = cluster.client_properties(Listener.SASL_PLAINTEXT, user="team-1")
    with Prometheus(broker_run.scrape_configuration(cluster.metrics_port(), 2)) as prometheus:
        hidden = dict.fromkeys(LOST, 10_000)
        send(cluster, [stream(login, name, size) for name, size in {**sizes(), **hidden}.items()])
        user = "team-1" if level == "pair" else ""
        expected = {
            (user, name): size / WINDOW_SECONDS
            for name, size in {**sizes(), **(hidden if cluster.extra else {})}.items()
        }
        rates = {who: rate for who, rate in rates_of(cluster).items() if who not in before}
        assert set(rates) == set(expected)
        for who, rate in expected.items():
            # A request has about 150 bytes beside the record, and the window is 10 to 11 s long.
            assert (
                0.85 * rate <= rates[who] <= 1.1 * (rate + 0.1 * (200 + 2 * len(who[1].encode())))
            ), who
        query = 'kafka_server_client_quota_byte_rate{type="produce"}'

        def stored() -> set[tuple[str, str]]:
            return set(
                decoded(
                    {frozenset(labels): rate for labels, rate in prometheus.values(query).items()},
                    "produce",
                )
            )

        until(lambda: stored() - before == set(expected), seconds=120, doing="reading them back")


def rates_of(cluster: KafkaCluster) -> dict[tuple[str, str], float]:
    series = exporter.scrape(cluster.metrics_port())
    return decoded(exporter.picked(series, "kafka_server_client_quota_byte_rate"), "produce")


@pytest.mark.integration
def test_the_principal_of_a_certificate_is_decoded_from_its_percent_encoding(cluster):
    name = "acme*=1?é&x"
    authority = cluster.authority
    assert authority is not None
    properties = cluster.client_properties(Listener.SSL) | {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.client(name).bundle),
        "ssl.endpoint.identification.algorithm": "",
    }
    broker_run.alter(cluster.bootstrap(), [(PHASES["pair"], "producer_byte_rate", 1e15)])
    send(cluster, [stream(properties, "by-certificate", 5_000)])
    users = {user for user, client_id in rates_of(cluster) if client_id == "by-certificate"}
    assert users == {r"CN=acme*\=1?é&x"}  # the broker's own spelling of the principal, RFC 2253


@pytest.mark.integration
def test_exactly_the_documented_series_exist(cluster):
    limits = [(entity(user=DEFAULT), key, 1e15 if "percent" not in key else 1e6) for key in KEYS]
    broker_run.alter(
        cluster.bootstrap(), [*limits, (entity(ip="127.0.0.1"), "connection_creation_rate", 1e6)]
    )
    login = cluster.client_properties(Listener.SASL_PLAINTEXT, user="team-1")
    reader = login | {"client.id": "reader", "auto.offset.reset": "earliest"}
    client = stream(login, "writer", 5_000) | {"topic": "everything"}
    send(cluster, [client | {"consumer": reader}])
    series = exporter.scrape(cluster.metrics_port())
    names = {name for name, _ in series if name.startswith("kafka_")}
    assert names == NAMES | {"kafka_server_app"}
    assert exporter.picked(series, "kafka_server_app") == {frozenset({("broker_id", "1")}): 1.0}
    throttled = exporter.picked(series, "kafka_server_client_quota_throttle_time_ms")
    assert {dict(pairs)["type"] for pairs in throttled} == {
        "produce",
        "fetch",
        "request",
        "controller_mutation",
    }
    assert all(math.isnan(value) for value in throttled.values())
    assert exporter.picked(series, "kafka_server_ip_connection_accept_rate").keys() == {
        frozenset({("ip", "127.0.0.1")})
    }
    # Above 1 on a node that is also a controller: until 4.0 it is the sum of the idle times of both pools.
    assert 0 <= series["kafka_server_request_handler_idle_ratio", frozenset()] <= 2
    assert series["kafka_server_broker_topic_bytes_in_total", frozenset()] > 5_000
    assert series["kafka_server_broker_topic_bytes_out_total", frozenset()] > 5_000


@pytest.mark.integration
def test_prometheus_stores_app_info_under_the_name_that_the_agent_shortens(cluster):
    with Prometheus(broker_run.scrape_configuration(cluster.metrics_port(), 2)) as prometheus:
        until(lambda: prometheus.values("kafka_server_app_info"), seconds=120, doing="a scrape")
        (labels,) = prometheus.values("kafka_server_app_info")
        assert ("broker_id", "1") in labels
        assert not prometheus.values("kafka_server_app")
        assert not prometheus.values("jvm_threads_current")


def test_every_rule_is_anchored_at_both_ends_and_has_its_own_help_text():
    """The agent searches anywhere in a bean's name, and its own help text would quote the client id."""
    rules = yaml.safe_load(exporter.SHIPPED.read_text(encoding="utf-8"))["rules"]
    assert len(rules) >= len(NAMES) + 1
    for rule in rules:
        assert rule["pattern"].removeprefix("(?s)").startswith("^kafka\\.server<"), rule
        assert rule["pattern"].endswith("$"), rule
        assert rule["help"]


def test_the_scrape_job_names_its_cluster_and_scrapes_every_ten_seconds():
    file = Path(exporter.SHIPPED).with_name("prometheus.yml")
    (job,) = yaml.safe_load(file.read_text(encoding="utf-8"))["scrape_configs"]
    assert job["scrape_interval"] == "10s"
    assert all("cluster" in target["labels"] for target in job["static_configs"])
