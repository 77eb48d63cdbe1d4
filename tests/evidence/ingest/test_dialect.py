"""Dialects: series as the exporters write them, and the dialects of a source."""

from pathlib import Path

import pytest

from reconciler.errors import TelemetryError
from reconciler.evidence.ingest import dialect_tables
from reconciler.evidence.ingest.dialect import Dialect, SeriesMeaning, SeriesNames
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.readers import openmetrics
from reconciler.usage.tables import Measure
from tests.evidence.ingest.kafka_names import jmx, sanitized

SHIPPED = dialect_tables.shipped()
USER, CLIENT = "CN=al ice,O=ü", 'x",user="admin*?\\\n'
ENCODED, QUOTED = sanitized(USER), jmx(CLIENT)
RATE = Measure.RATE


def meaning(dialect: str, name: str, **labels: str) -> SeriesMeaning | DropReason:
    return SHIPPED.get(dialect).meaning(name, labels)


FORMS = """
kquota kafka_server_client_quota_byte_rate type=produce user=E client_id=Q -> rate produce U C
kquota kafka_server_client_quota_byte_rate type=fetch client_id=c -> rate fetch - c
kquota kafka_server_client_quota_request_time user=u -> rate request u -
kquota kafka_server_client_quota_mutation_rate -> rate controller_mutation - -
kquota kafka_server_client_quota_throttle_time_ms type=controller_mutation user=u -> throttle_ms controller_mutation u -
jmx_exporter kafka_server_quota_byte_rate resource=Fetch user=E clientId=Q -> rate fetch U C
jmx_exporter kafka_server_quota_byte_rate resource=Produce clientid=c -> rate produce - c
jmx_exporter kafka_server_quota_byte_rate resource=Produce,_user=E clientId=c -> rate produce U c
jmx_exporter kafka_server_quota_request_time resource=Request,_user=u clientId=c -> rate request u c
jmx_exporter kafka_server_quota_mutation_rate resource=ControllerMutation user=u -> rate controller_mutation u -
jmx_exporter kafka_server_quota_throttle_time resource=Produce user=u -> throttle_ms produce u -
jmx_exporter_without_rules kafka_server_ControllerMutation_mutation_rate user=E client_id=Q -> rate controller_mutation U C
jmx_exporter_without_rules kafka_server_request_request_time user=u -> rate request u -
confluent kafka_server_produce_byte_rate user=E client_id=Q -> rate produce U C
confluent kafka_server_request_request_time user=u -> rate request u -
confluent kafka_server_fetch_throttle_time client_id=c -> throttle_ms fetch - c
strimzi_reporter kafka_server_fetch_byte_rate user=E client_id=C -> rate fetch U C
strimzi_reporter kafka_server_controllermutation_mutation_rate user=u -> rate controller_mutation u -
redpanda redpanda_kafka_quotas_client_quota_throughput_by_entity redpanda_quota_type=produce_quota redpanda_quota_user=C -> rate_total produce C -
redpanda redpanda_kafka_quotas_client_quota_throttle_time_ms_by_entity redpanda_quota_type=partition_mutation_quota redpanda_quota_client_id=C -> throttle_ms_total controller_mutation - C
kquota kafka_server_client_quota_byte_rate type=produce user=%zz -> BAD_USER
kquota kafka_server_client_quota_byte_rate type=produce client_id=y" -> BAD_CLIENT_ID
kquota kafka_server_client_quota_byte_rate type=request -> UNKNOWN_TYPE
kquota kafka_server_client_quota_byte_rate -> UNKNOWN_TYPE
kquota go_goroutines -> OTHER_METRIC
jmx_exporter kafka_server_quota_byte_rate resource=Produce,_user=u,_client-id="x clientId=y" -> UNKNOWN_TYPE
jmx_exporter kafka_server_quota_byte_rate resource=Produce user=u,_client-id="x clientId=y" -> BAD_USER
jmx_exporter kafka_server_produce_user_alice_byte_rate -> NAME_LOST
jmx_exporter kafka_server_request_client_id_c_throttle_time -> NAME_LOST
redpanda redpanda_kafka_quotas_client_quota_throughput_by_entity redpanda_quota_type=produce_quota redpanda_quota_group_name=g -> GROUP_ENTITY
redpanda vectorized_kafka_quotas_client_quota_throughput_by_entity quota_type=produce_quota quota_user=u shard=0 -> PER_SHARD
"""
"""Dialect, metric and labels -> meaning. `E` and `Q` are `U` and `C` as Kafka writes them; `_` in a value is a blank."""
WORDS = {"E": ENCODED, "Q": QUOTED, "U": USER, "C": CLIENT, "-": ""}


def value_of(word: str) -> str:
    """The value of a word; the user may stand beside the quota type: `Produce,_user=E`."""
    before, beside, user = word.partition("=")
    if not beside:
        return WORDS.get(word, word)
    return f"{before}={WORDS.get(user, user)}".replace("_", " ")


@pytest.mark.parametrize("line", FORMS.strip().split("\n"))
def test_series_are_read_in_the_form_of_each_exporter_or_refused(line: str) -> None:
    series_text, _, expected = line.partition(" -> ")
    dialect, name, *pairs = series_text.split(" ")
    words = {label: value for label, _, value in (pair.partition("=") for pair in pairs)}
    labels = {
        label: word if label.endswith("type") else value_of(word) for label, word in words.items()
    }
    series = meaning(dialect, name, **labels)
    if isinstance(series, DropReason):
        assert series.name == expected
        return
    measure, kind, *names = expected.split(" ")
    assert series.names[:4] == (measure, kind, *(WORDS.get(name, name) for name in names))


@pytest.mark.parametrize("dialect", [shipped.name for shipped in SHIPPED.all])
@pytest.mark.parametrize(
    ("name", "measure"),
    [
        ("up", Measure.UP),
        ("kafka_server_broker_topic_bytes_in_total", Measure.BYTES_IN_TOTAL),
        ("kafka_server_brokertopicmetrics_bytesin_total", Measure.BYTES_IN_TOTAL),
        ("kafka_server_brokertopicmetrics_bytesinpersec", Measure.BYTES_IN_TOTAL),
        ("kafka_server_brokertopicmetrics_bytesoutpersec_total", Measure.BYTES_OUT_TOTAL),
        ("kafka_server_broker_topic_replication_bytes_in_total", Measure.REPLICATION_IN_TOTAL),
        (
            "kafka_server_brokertopicmetrics_replicationbytesout_total",
            Measure.REPLICATION_OUT_TOTAL,
        ),
        ("kafka_server_request_handler_idle_ratio", Measure.REQUEST_IDLE),
    ],
)
def test_totals_of_brokers_are_read_in_every_dialect_but_not_those_of_topics(
    dialect: str, name: str, measure: Measure
) -> None:
    assert meaning(dialect, name) == SeriesMeaning(SeriesNames(measure))
    assert meaning(dialect, name, topic="t") is DropReason.PER_TOPIC


def test_app_info_contains_the_broker_id_as_a_label_or_as_its_value() -> None:
    name = "kafka_server_app_info"
    assert meaning("kquota", name, broker_id="7") == SeriesMeaning(
        SeriesNames(Measure.BROKER_ID), "7"
    )
    assert meaning("kquota", name, id="7") == SeriesMeaning(SeriesNames(Measure.BROKER_ID), "7")
    assert meaning("kquota", name) == SeriesMeaning(SeriesNames(Measure.BROKER_ID))
    assert meaning("kquota", name, broker_id="seven") is DropReason.BAD_BROKER_ID
    assert meaning("kquota", "kafka_server_app", broker_id="7") == meaning("kquota", name, id="7")
    assert meaning("kquota", "kafka_server_app_info_starttimems", id="7") == SeriesMeaning(
        SeriesNames(Measure.BROKER_ID), "7"
    )
    assert meaning("kquota", "kafka_server_app_info_starttimems") is DropReason.OTHER_METRIC


RECORDED_LINES = {
    # Kafka 4.4.0, Strimzi's metrics-reporter 0.2.0
    "strimzi_reporter": r"""
kafka_server_produce_byte_rate{client_id="line\nbreak",user="team-1"} 105.26 1
kafka_server_request_request_time{client_id="x\",user=\"admin",user="team-1"} 0.27 1
kafka_server_controllermutation_mutation_rate{client_id="<default>",user="team-1"} 0.02 1
kafka_server_produce_throttle_time{client_id="plain",user="team-1"} NaN 1
kafka_server_socket_server_metrics_connection_accept_rate{ip="127.0.0.1"} 0.0 1
kafka_server_socket_server_metrics_connection_accept_rate{listener="PLAINTEXT"} 0.0 1
kafka_server_app_info_start_time_ms 1.79e12 1
kafka_server_app_info_start_time_ms{client_id="1"} 1.79e12 1
kafka_server_brokertopicmetrics_bytesinpersec_total 4280.0 1
kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_total 1.7270930353E10 1
""",
    # Kafka 4.4.0, JMX agent 1.0.1, the two quota rules of kafka-2_0_0.yml in their order
    "jmx_exporter": r"""
kafka_server_quota_byte_rate{clientId="\"x, user=admin\"",resource="Produce, user=team-1"} 105.6 1
kafka_server_quota_byte_rate{clientId="y\"",resource="Produce, user=team-1, client-id=\"x"} 103.0 1
kafka_server_quota_byte_rate{clientId="z><>byte-rate: 1\"",resource="Produce, user=admin"} 110.4 1
kafka_server_quota_byte_rate{clientId="\"x\\\",user=\\\"admin\"",resource="Produce, user=team-1"} 103.8 1
kafka_server_produce_user_team_1_client_id_plain_byte_rate 104.3 1
""",
    # Kafka 4.4.0, JMX agent 1.0.1, rules of jmx-monitoring-stacks
    "confluent": r"""
kafka_server_produce_byte_rate{client_id="y\"",user="team-1, client-id=\"x"} 109.4 1
kafka_server_produce_byte_rate{client_id="\"a,b\"",user="team-1"} 102.9 1
kafka_server_brokertopicmetrics_bytesinpersec 6420.0 1
""",
}
EXPECTED: dict[str, list[object]] = {
    "strimzi_reporter": [
        ("rate", "produce", "team-1", "line\nbreak"),
        ("rate", "request", "team-1", 'x",user="admin'),
        ("rate", "controller_mutation", "team-1", "<default>"),
        ("throttle_ms", "produce", "team-1", "plain"),
        ("rate", "ip", "", ""),
        DropReason.OTHER_METRIC,
        DropReason.OTHER_METRIC,
        ("broker_id", "", "", ""),
        ("bytes_in_total", "", "", ""),
        DropReason.OTHER_METRIC,
    ],
    "jmx_exporter": [
        ("rate", "produce", "team-1", "x, user=admin"),
        DropReason.UNKNOWN_TYPE,
        DropReason.BAD_CLIENT_ID,
        ("rate", "produce", "team-1", 'x",user="admin'),
        DropReason.NAME_LOST,
    ],
    "confluent": [
        DropReason.BAD_USER,
        ("rate", "produce", "team-1", "a,b"),
        ("bytes_in_total", "", "", ""),
    ],
}


@pytest.mark.parametrize("dialect", RECORDED_LINES)
def test_lines_of_real_brokers_are_read_or_refused(dialect: str, tmp_path: Path) -> None:
    path = tmp_path / "seen.txt"
    path.write_text(RECORDED_LINES[dialect].strip() + "\n# EOF\n")
    counts = DropCounts()
    results: list[object] = []
    for series in openmetrics.read(path, counts):
        read = SHIPPED.get(dialect).meaning(series.name, series.labels)
        results.append(read if isinstance(read, DropReason) else read.names[:4])
    assert results == EXPECTED[dialect]
    assert dict(counts) == {}


def test_connections_of_addresses_are_read() -> None:
    series = meaning("kquota", "kafka_server_ip_connection_accept_rate", ip="2001:DB8::1", user="u")
    assert series == SeriesMeaning(SeriesNames(measure=RATE, quota_type="ip", ip="2001:db8::1"))
    assert meaning("kquota", "kafka_server_ip_connection_accept_rate", ip="x") is DropReason.BAD_IP
    assert meaning("kquota", "kafka_server_ip_connection_accept_rate") is DropReason.OTHER_METRIC
    listener = "kafka_server_socket_server_metrics_connection_accept_rate"
    assert meaning("strimzi_reporter", listener, listener="PLAINTEXT") is DropReason.OTHER_METRIC


def test_a_client_id_of_ten_thousand_characters_is_read() -> None:
    long = '"*\n,=ü' * 1667
    series = meaning("kquota", "kafka_server_client_quota_request_time", client_id=jmx(long))
    assert isinstance(series, SeriesMeaning)
    assert series.names.client_id == long


JMX = {"resource", "user"}


@pytest.mark.parametrize(
    ("labels_by_metric", "dialect"),
    [
        ({"kafka_server_client_quota_byte_rate": {"type"}, "up": set()}, "kquota"),
        ({"kafka_server_ip_connection_accept_rate": {"ip"}}, "kquota"),
        ({"kafka_server_quota_byte_rate": JMX}, "jmx_exporter"),
        (
            {
                "kafka_server_produce_byte_rate": set(),
                "kafka_server_brokertopicmetrics_bytesinpersec": set(),
            },
            "confluent",
        ),
        (
            {
                "kafka_server_produce_byte_rate": set(),
                "kafka_server_brokertopicmetrics_bytesinpersec_total": set(),
            },
            "strimzi_reporter",
        ),
        (
            {
                "kafka_server_controllermutation_mutation_rate": set(),
                "kafka_server_brokertopicmetrics_bytesinpersec_total": set(),
            },
            "strimzi_reporter",
        ),
        (
            {
                "kafka_server_produce_byte_rate": set(),
                "kafka_server_app_info_starttimems": {"id"},
            },
            "jmx_exporter_without_rules",
        ),
        ({"kafka_server_Fetch_byte_rate": set()}, "jmx_exporter_without_rules"),
        ({"redpanda_kafka_quotas_client_quota_throughput_by_entity": set()}, "redpanda"),
    ],
)
def test_a_dialect_is_recognised_by_its_series(
    labels_by_metric: dict[str, set[str]], dialect: str
) -> None:
    assert SHIPPED.detected(labels_by_metric).name == dialect


def test_two_matching_dialects_are_an_error_that_names_both() -> None:
    with pytest.raises(TelemetryError, match="confluent, strimzi_reporter") as both:
        SHIPPED.detected({"kafka_server_produce_byte_rate": set()})
    assert "--dialect" in both.value.hint
    assert "kafka_server_produce_byte_rate" in both.value.message
    with pytest.raises(TelemetryError, match="kquota, jmx_exporter"):
        SHIPPED.detected(
            {"kafka_server_quota_byte_rate": JMX, "kafka_server_client_quota_byte_rate": {"type"}}
        )


def test_no_matching_dialect_is_an_error_that_lists_the_series_and_the_known_dialects() -> None:
    with pytest.raises(TelemetryError, match="found go_threads, up") as none:
        SHIPPED.detected({"up": set(), "go_threads": set()})
    assert all(dialect.name in none.value.hint for dialect in SHIPPED.all)
    near = {f"a_{number}": set[str]() for number in range(20)}
    near |= {"kafka_server_z": set(), "kafka_server_quota_z": set(), "z_throttle_time": set()}
    first = "found kafka_server_quota_z, z_throttle_time, kafka_server_z, a_0"
    with pytest.raises(TelemetryError, match=first):
        SHIPPED.detected(near)
    with pytest.raises(TelemetryError, match="found nothing"):
        SHIPPED.detected({})


def test_client_names_in_names_of_metrics_are_explained() -> None:
    with pytest.raises(TelemetryError, match="precedes those of the quotas"):
        SHIPPED.detected({"kafka_server_produce_user_alice_byte_rate": set(), "up": set()})


def test_an_unknown_dialect_is_an_error() -> None:
    with pytest.raises(TelemetryError, match="'x'"):
        SHIPPED.get("x")


def test_every_metric_of_the_dialect_table_can_match() -> None:
    for dialect in SHIPPED.all:
        assert any(metric.measure in {RATE, Measure.RATE_TOTAL} for metric in dialect.metrics)
        for metric in dialect.metrics:
            if metric.types and "type" not in metric.name.groupindex and len(metric.types) > 1:
                assert dialect.type_label is not None, (dialect.name, metric.name.pattern)
            types = set(dialect.types.values())
            if len(metric.types) > 1:
                assert set(metric.types) <= types, (dialect.name, metric.name.pattern)


OWN = """
[[dialect]]
name = "ours"
names.user = { labels = ["principal"], decoder = "plain" }
type = { label = "kind" }
types = { w = "produce", r = "fetch" }

[[dialect.metric]]
name = "acme_kafka_bytes"
measure = "rate"
types = ["produce", "fetch"]
"""


def own(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "own.toml"
    path.write_text(text)
    return path


def test_a_file_of_the_user_adds_a_dialect_and_keeps_the_shared_metrics(tmp_path: Path) -> None:
    table = dialect_tables.read(own(tmp_path, OWN))
    dialect = table.detected({"acme_kafka_bytes": {"kind"}})
    assert dialect.meaning("acme_kafka_bytes", {"kind": "w", "principal": "-"}) == SeriesMeaning(
        SeriesNames(RATE, "produce", "-")
    )
    assert dialect.meaning("up", {}) == SeriesMeaning(SeriesNames(Measure.UP))
    assert (
        dialect.meaning("kafka_server_brokertopicmetrics_bytesin_total", {"topic": "t"})
        is DropReason.PER_TOPIC
    )
    assert len(table.all) == len(SHIPPED.all) + 1


def test_a_dialect_of_the_same_name_replaces_the_shipped_one(tmp_path: Path) -> None:
    table = dialect_tables.read(own(tmp_path, OWN.replace('"ours"', '"confluent"')))
    assert len(table.all) == len(SHIPPED.all)
    assert table.get("confluent").is_needed("acme_kafka_bytes")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("[[dialect]]", "[[dialekt]]", "dialekt"),
        ('"acme_kafka_bytes"', '"("', "regular expression"),
        ('measure = "rate"', 'measure = "speed"', "metric[0].measure"),
        ('measure = "rate"', 'measure = "rate"\nfaktor = 1', "faktor"),
        ('["produce", "fetch"]', '["write"]', "metric[0].types[0]"),
        ('decoder = "plain"', 'decoder = "rot13"', "names.user.decoder should be another word"),
        ('type = { label = "kind" }', 'refuse = { x = "y" }', "dialect[0].refuse.x should be one"),
        ('name = "ours"', "", "the field 'name'"),
        ('{ w = "produce"', '{ w = "write"', "dialect[0].types.w should be another word"),
        ('type = { label = "kind" }', 'type = { label = "kind", pattern = "(.)" }', "group"),
        ("[[dialect.metric]]", "[[dialect.metrics]]", "the unknown field 'metrics'"),
        ('labels = ["principal"]', 'labels = "principal"', "labels"),
    ],
)
def test_an_error_in_the_table_is_reported_with_its_file(
    tmp_path: Path, before: str, after: str, message: str
) -> None:
    text = OWN.replace(before, after, 1)
    assert text != OWN
    with pytest.raises(TelemetryError, match=r"own\.toml") as slip:
        dialect_tables.read(own(tmp_path, text))
    assert message in slip.value.message


def test_a_malformed_table_is_reported_with_its_file(tmp_path: Path) -> None:
    for text in ("", "x = ", "[dialect]\nname = 1"):
        with pytest.raises(TelemetryError, match=r"own\.toml"):
            dialect_tables.read(own(tmp_path, text))
    with pytest.raises(TelemetryError, match=r"missing\.toml"):
        dialect_tables.read(tmp_path / "missing.toml")


def test_dialects_name_the_metrics_that_they_read() -> None:
    dialect: Dialect = SHIPPED.get("kquota")
    assert dialect.is_needed("up")
    assert not dialect.is_needed("kafka_server_quota_byte_rate")
    assert SHIPPED.is_needed("kafka_server_quota_byte_rate")
    assert not SHIPPED.is_needed("go_threads")
