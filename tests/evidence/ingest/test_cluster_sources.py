"""The sources of recorded use, and the cluster of a series: read strictly, never guessed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import TelemetryError
from reconciler.evidence.ingest import cluster_sources
from reconciler.evidence.ingest.cluster_sources import (
    BrokerIdRule,
    ClusterMatcher,
    ClusterSource,
    LabelMatcher,
    source_of,
)
from reconciler.evidence.ingest.drop_reasons import DropReason
from reconciler.manifest.project.cluster import QuotaCluster, from_spec

LABEL = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def cluster(**telemetry: object) -> QuotaCluster:
    return from_spec(
        "orders",
        {"bootstrapServers": "b:9092", "expectedClusterId": "ORDERS", "telemetry": telemetry},
    )


def source(name: str, text: str = "") -> ClusterSource:
    return ClusterSource(
        cluster=name, cluster_id=name.upper(), matchers=cluster_sources.parsed_matchers(text)
    )


@given(
    st.lists(
        st.builds(LabelMatcher, label=LABEL, operator=st.sampled_from(["=", "!="]), value=TEXT)
    )
)
def test_matchers_are_parsed_as_they_are_written(several: list[LabelMatcher]) -> None:
    text = ",".join(str(matcher) for matcher in several)
    assert cluster_sources.parsed_matchers(text) == tuple(several)
    assert cluster_sources.parsed_matchers("{" + text + "}") == tuple(several)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'a="b\"c\\d\n"', 'b"c\\d\n'),
        (r"a='it\'s'", "it's"),
        (r"a=`raw\n`", "raw\\n"),
        (r'a="\u00fc\x41\101"', "üAA"),
    ],
)
def test_strings_have_the_escapes_of_promql(text: str, value: str) -> None:
    (matcher,) = cluster_sources.parsed_matchers(text)
    assert matcher.value == value


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "a=b",
        'a=="b"',
        'a="b" c="d"',
        'a="b',
        'a=~"("',
        r'a="\q"',
        '="b"',
        'a="b";',
        r'a="\ud800"',
        r'a="\400"',
    ],
)
def test_other_expressions_are_refused(text: str) -> None:
    with pytest.raises(TelemetryError):
        cluster_sources.parsed_matchers(text)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ('job=~"kaf.*"', True),
        ('job=~"kaf"', False),
        ('job!~"x.*"', True),
        ('job!="kafka"', False),
        ('absent=""', True),
        ('absent!=""', False),
        ('absent=~".*"', True),
        ("", True),
        ('job="kafka",absent="x"', False),
    ],
)
def test_expressions_are_anchored_and_an_absent_label_is_an_empty_one(
    text: str, fits: bool
) -> None:
    assert cluster_sources.all_fit(cluster_sources.parsed_matchers(text), {"job": "kafka"}) is fits


def test_a_quotacluster_defines_its_source() -> None:
    source = source_of(
        cluster(
            prometheus="http://p:9090",
            matchers='cluster="a"',
            brokerId="label:broker",
            scrapeStep="15s",
            maxGap="2m",
            evidenceUri="s3://b",
        )
    )
    assert source.address == "http://p:9090"
    assert source.cadence.step_ms == 15_000
    assert source.cadence.max_gap_ms == 120_000
    assert source.broker_rule == BrokerIdRule(label="broker")
    assert source.cluster_id == "ORDERS"


def test_a_missing_setting_is_an_error_only_where_it_is_needed() -> None:
    bare = source_of(cluster())
    with pytest.raises(TelemetryError, match="scrapeStep") as step:
        _ = bare.cadence
    assert "30s" in step.value.hint
    with pytest.raises(TelemetryError, match=r"telemetry\.prometheus"):
        _ = bare.address


def test_a_gap_shorter_than_the_step_is_refused_by_name() -> None:
    with pytest.raises(TelemetryError, match="orders"):
        _ = source_of(cluster(scrapeStep="60s", maxGap="10s")).cadence


def test_without_a_cluster_id_nothing_is_stored() -> None:
    nameless = from_spec("orders", {"bootstrapServers": "b:9092"})
    with pytest.raises(TelemetryError, match="cluster id"):
        source_of(nameless)


@pytest.mark.parametrize(
    ("rule", "labels", "broker"),
    [
        ("label:broker", {"broker": "3"}, "3"),
        ("label:broker", {"broker": "03"}, None),
        ("label:broker", {"broker": "b3"}, None),
        ("label:broker", {}, None),
        ("regex:pod:.*-([0-9]+)", {"pod": "kafka-12"}, "12"),
        ("regex:pod:.*-([0-9]+)", {"pod": "kafka-12x"}, None),
        ("regex:pod:a:b([0-9])", {"pod": "a:b7"}, "7"),
        ("regex:pod:x|([0-9])", {"pod": "x"}, None),
        ("label:broker", {"broker": "99999999999"}, None),
    ],
)
def test_labels_map_to_broker_ids(rule: str, labels: dict[str, str], broker: str | None) -> None:
    assert BrokerIdRule.parsed(rule).of(labels) == broker


@pytest.mark.parametrize(
    "rule",
    [
        "broker",
        "label:",
        "label:a:b",
        "regex:pod:[0-9]+",
        "regex:pod:([0-9])(x)",
        "regex:pod:(",
        "eval:pod:(.)",
    ],
)
def test_other_rules_are_refused_with_an_example(rule: str) -> None:
    with pytest.raises(TelemetryError) as wrong:
        BrokerIdRule.parsed(rule)
    assert "regex:pod" in wrong.value.hint


def test_a_series_belongs_to_the_one_cluster_that_matches_it() -> None:
    both = ClusterMatcher(
        [source("a", 'cluster="a"'), source("b", 'cluster=~"b|ab"'), source("c", 'cluster="ab"')]
    )
    assert both.of({"cluster": "a"}) == both.sources[0]
    assert both.of({"cluster": "ab"}) is DropReason.TWO_CLUSTERS
    assert both.of({"cluster": "z"}) is DropReason.OTHER_CLUSTER
    assert both.of({}) is DropReason.OTHER_CLUSTER


def test_two_clusters_in_one_source_both_need_matchers() -> None:
    with pytest.raises(TelemetryError, match=r"b has no telemetry\.matchers"):
        ClusterMatcher([source("a", 'cluster="a"'), source("b")])


def test_a_single_cluster_without_matchers_receives_every_series_unless_there_seem_to_be_several() -> (
    None
):
    alone = ClusterMatcher([source("a")])
    assert alone.of({"cluster": "any"}) == alone.sources[0]
    alone.check([{"cluster": "x", "instance": "1"}, {"cluster": "x", "instance": "2"}, {}])
    with pytest.raises(TelemetryError, match="cluster is x, y") as several:
        alone.check([{"cluster": "x"}, {"cluster": "y"}])
    assert several.value.hint == 'write matchers: cluster="x"'


def test_with_matchers_several_cluster_labels_are_accepted() -> None:
    ClusterMatcher([source("a", 'cluster="x"')]).check([{"cluster": "x"}, {"cluster": "y"}])
