"""Sources of recorded use: parses ``telemetry`` of a QuotaCluster, and matches series to clusters."""

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from reconciler.errors import KquotaError, TelemetryError
from reconciler.evidence.ingest.drop_reasons import DropReason
from reconciler.manifest.project.cluster import QuotaCluster, seconds
from reconciler.usage import samples
from reconciler.usage.samples import Cadence

CLUSTER_LABELS: Final = (
    "kafka_cluster_id",
    "cluster_id",
    "kafka_cluster",
    "cluster",
    "cluster_name",
    "strimzi_io_cluster",
    "kafka_id",
    "environment",
    "env",
    "namespace",
    "job",
)
"""Labels that usually distinguish clusters: if one of them has two values, matchers are required."""

_BROKER_ID: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def broker_id(text: str) -> str | None:
    """Return a broker id as Kafka writes it; ``None`` if the text is not one."""
    return text if _BROKER_ID.fullmatch(text) and int(text) < 2**31 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerIdRule:
    """How the broker id is read from labels: ``label:NAME`` or ``regex:NAME:PATTERN``.

    The pattern must match the whole value and has one group, the id.
    """

    label: str
    pattern: re.Pattern[str] | None = None  # with one group; None = the value is the id

    @classmethod
    def parsed(cls, text: str) -> "BrokerIdRule":
        """Parse a rule.

        Raises:
            TelemetryError: The rule is invalid.
        """
        kind, _, rule_argument = text.strip().partition(":")
        label, _, pattern = rule_argument.partition(":")
        hint = r"write label:broker, or regex:pod:.*-([0-9]+)"
        if not _LABEL.fullmatch(label) or kind not in {"label", "regex"}:
            raise TelemetryError(
                f"telemetry.brokerId {text!r} is neither label:NAME nor regex:NAME:PATTERN",
                hint=hint,
            )
        if kind == "label":
            if pattern:
                raise TelemetryError(f"telemetry.brokerId {text!r} is not label:NAME", hint=hint)
            return cls(label=label)
        try:
            compiled = re.compile(pattern, re.DOTALL)
        except (re.error, OverflowError, RecursionError) as wrong:
            raise TelemetryError(
                f"telemetry.brokerId: {pattern!r} is not a regular expression: {wrong}", hint=hint
            ) from wrong
        if compiled.groups != 1:
            raise TelemetryError(
                f"telemetry.brokerId: {pattern!r} has {compiled.groups} groups; one is needed, around the id",
                hint=hint,
            )
        return cls(label=label, pattern=compiled)

    def of(self, labels: Mapping[str, str]) -> str | None:
        """Return the broker id; ``None`` if the labels give none."""
        value = labels.get(self.label, "")
        if self.pattern is None:
            return broker_id(value)
        match = self.pattern.fullmatch(value)
        return None if match is None else broker_id(match[1] or "")


_NAME: Final = re.compile(r"\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*")
_QUOTED: Final = re.compile(r"`([^`]*)`|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'")
_ESCAPE: Final = re.compile(
    r"\\(?:[abfnrtv\\\"']|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"
)
"""The escapes of PromQL; each has the same meaning in Python."""

_MATCHER_HINT: Final = 'write it as in PromQL, such as cluster="orders",job=~"kafka.*"'


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelMatcher:
    """A condition on one label."""

    label: str  # its name; an absent label equals an empty one
    # `=`, `!=`, `=~` or `!~`; expressions are anchored at both ends, as in Prometheus.
    operator: str
    value: str
    _pattern: re.Pattern[str] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.operator.endswith("~"):
            return
        try:
            pattern = re.compile(self.value, re.DOTALL)
        except (re.error, OverflowError, RecursionError) as wrong:
            raise TelemetryError(
                f"{self.value!r} is not a regular expression: {wrong}", hint=_MATCHER_HINT
            ) from wrong
        object.__setattr__(self, "_pattern", pattern)

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Whether a series with these labels matches."""
        actual_value = labels.get(self.label, "")
        is_match = (
            self._pattern.fullmatch(actual_value) is not None
            if self._pattern is not None
            else actual_value == self.value
        )
        return is_match is not self.operator.startswith("!")

    def __str__(self) -> str:
        return f"{self.label}{self.operator}{quoted(self.value)}"


def quoted(text: str) -> str:
    """Return a PromQL string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def all_fit(matchers: tuple[LabelMatcher, ...], labels: Mapping[str, str]) -> bool:
    """Whether a series matches all matchers; without matchers, every series does."""
    return all(matcher.fits(labels) for matcher in matchers)


def selector(metric: str, matchers: tuple[LabelMatcher, ...]) -> str:
    """Return a PromQL selector."""
    return f"{metric}{{{','.join(str(matcher) for matcher in matchers)}}}"


def parsed_matchers(text: str) -> tuple[LabelMatcher, ...]:
    """Parse matchers such as ``cluster="orders",job=~"kafka.*"``, with or without braces.

    Raises:
        TelemetryError: The text is invalid.
    """
    inner = text.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1]
    matchers: list[LabelMatcher] = []
    at = 0
    while inner[at:].strip():
        name_match = _NAME.match(inner, at)
        value = name_match and _QUOTED.match(inner, name_match.end())
        if name_match is None or value is None:
            raise TelemetryError(
                f"label matchers cannot be read from {inner[at : at + 40]!r} on", hint=_MATCHER_HINT
            )
        raw = value[1] if value[1] is not None else _unescaped(value[0])
        matchers.append(LabelMatcher(label=name_match[1], operator=name_match[2], value=raw))
        remaining_text = inner[value.end() :]
        stripped = remaining_text.lstrip()
        if stripped and not stripped.startswith(","):
            raise TelemetryError(
                f"expected a comma between two matchers, found {stripped[:20]!r}",
                hint=_MATCHER_HINT,
            )
        at = len(inner) - len(stripped) + (1 if stripped else 0)
    return tuple(matchers)


def _unescaped(literal: str) -> str:
    if "\\" in _ESCAPE.sub("", literal):
        raise TelemetryError(
            f"{literal} has an escape that PromQL does not know", hint=_MATCHER_HINT
        )
    try:
        text = _ESCAPE.sub(lambda escape: ast.literal_eval(f'"{escape[0]}"'), literal[1:-1])
        _ = text.encode()
    except (SyntaxError, ValueError):
        raise TelemetryError(
            f"{literal} in a label matcher has an escape that is no character", hint=_MATCHER_HINT
        ) from None
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSource:
    """The source of the recorded use of one cluster."""

    cluster: str
    cluster_id: str
    prometheus: str = field(default="", repr=False)  # address of the HTTP API; "" = not set
    # Matchers of the series of this cluster; empty = not set.
    matchers: tuple[LabelMatcher, ...] = ()
    broker_rule: BrokerIdRule | None = None  # how labels give broker ids; None = only app-info does
    scrape_ms: int | None = None  # scrape interval of the brokers; None = not set
    # Longest gap within a session; None = five scrape intervals, at most five minutes.
    max_gap_ms: int | None = None
    evidence_uri: str = ""  # where evidence is published; "" = not set

    @property
    def cadence(self) -> Cadence:
        """The scrape interval and the longest gap.

        Raises:
            TelemetryError: It is not set or invalid.
        """
        if self.scrape_ms is None:
            raise TelemetryError(
                f"telemetry.scrapeStep of cluster {self.cluster} is not set",
                hint="write the scrape_interval of the job that reads the brokers, such as scrapeStep: 30s; without a project, --step 30s",
            )
        try:
            return samples.cadence(self.scrape_ms, self.max_gap_ms)
        except KquotaError as wrong:
            raise TelemetryError(
                f"telemetry of cluster {self.cluster}: {wrong.message}",
                hint="see scrapeStep and maxGap",
            ) from wrong

    @property
    def address(self) -> str:
        """The address of the HTTP API.

        Raises:
            TelemetryError: It is not set.
        """
        if not self.prometheus:
            raise TelemetryError(
                f"telemetry.prometheus of cluster {self.cluster} is not set",
                hint="write the address of the Prometheus HTTP API, such as http://prometheus:9090",
            )
        return self.prometheus


def source_of(cluster: QuotaCluster) -> ClusterSource:
    """Parse the telemetry of a QuotaCluster.

    Raises:
        TelemetryError: A value is invalid, or there is no ``expectedClusterId``.
    """
    cluster_id = cluster.expected_cluster_id
    if not cluster_id:
        raise TelemetryError(
            f"the cluster id of {cluster.name} is not known, and recorded use is kept by it",
            hint="write expectedClusterId (`kquota doctor` shows it)",
        )
    spec: Mapping[str, Any] = cluster.telemetry
    rule = spec.get("brokerId")
    return ClusterSource(
        cluster=cluster.name,
        cluster_id=cluster_id,
        prometheus=str(spec.get("prometheus", "")),
        matchers=parsed_matchers(str(spec.get("matchers", ""))),
        broker_rule=None if rule is None else BrokerIdRule.parsed(str(rule)),
        scrape_ms=_milliseconds(spec, "scrapeStep"),
        max_gap_ms=_milliseconds(spec, "maxGap"),
        evidence_uri=str(spec.get("evidenceUri", "")),
    )


def _milliseconds(spec: Mapping[str, Any], name: str) -> int | None:
    return round(seconds(str(spec[name])) * 1000) if name in spec else None


class ClusterMatcher:
    """Finds the cluster of a series among clusters that read from the same source.

    Args:
        sources: All clusters that read from the same file or Prometheus.

    Raises:
        TelemetryError: One of several clusters has no matchers, so every series would match it.
    """

    def __init__(self, sources: Iterable[ClusterSource]) -> None:
        self.sources = tuple(sources)
        open_ones = [source.cluster for source in self.sources if not source.matchers]
        if len(self.sources) > 1 and open_ones:
            raise TelemetryError(
                f"{len(self.sources)} clusters are read from one place, and {', '.join(open_ones)} has no telemetry.matchers",
                hint='add a matcher for its series, such as matchers: cluster="orders"',
            )

    def of(self, labels: Mapping[str, str]) -> ClusterSource | DropReason:
        """Return the cluster of a series, or why it has none."""
        matching_sources = [source for source in self.sources if all_fit(source.matchers, labels)]
        match matching_sources:
            case [source]:
                return source
            case []:
                return DropReason.OTHER_CLUSTER
            case _:
                return DropReason.TWO_CLUSTERS

    def check(self, label_sets: Iterable[Mapping[str, str]]) -> None:
        """Check that the series can all be of a single cluster without matchers.

        Args:
            label_sets: Labels of the series about quotas or brokers.

        Raises:
            TelemetryError: The series seem to be of several clusters and there are no matchers.
        """
        if len(self.sources) != 1 or self.sources[0].matchers:
            return
        values: dict[str, set[str]] = {}
        for labels in label_sets:
            for name in CLUSTER_LABELS:
                if labels.get(name):
                    values.setdefault(name, set()).add(labels[name])
        for name in CLUSTER_LABELS:
            examples = sorted(values.get(name, ()))
            if len(examples) > 1:
                suffix = ", …" if len(examples) > 3 else ""
                raise TelemetryError(
                    f"there seem to be series of several clusters ({name} is {', '.join(examples[:3])}{suffix}),"
                    f" and telemetry.matchers of {self.sources[0].cluster} does not select one",
                    hint=f"write matchers: {LabelMatcher(label=name, operator='=', value=examples[0])}",
                )


class ScrapeTarget(NamedTuple):
    """A Prometheus scrape target; two jobs on a host, or brokers behind a federation, share an instance."""

    instance: str  # the label `instance`
    job: str = ""  # the label `job`; "" = none
    broker: str = ""  # the id by `telemetry.brokerId`; "" = none, then app-info gives it


class SampleOrigin(NamedTuple):
    """The origin of a sample: a target as scraped by one replica of Prometheus."""

    target: ScrapeTarget
    replica: str
