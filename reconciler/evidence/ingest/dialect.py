"""Dialects: the meaning of metrics and labels, as defined in dialects.toml; and detection of the dialect of a source."""

import ipaddress
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple
from urllib.parse import quote, unquote

from msgspec import Struct

from reconciler.errors import TelemetryError
from reconciler.evidence.ingest.cluster_sources import broker_id
from reconciler.evidence.ingest.drop_reasons import DropReason
from reconciler.usage.samples import QuotaType
from reconciler.usage.tables import Measure

ABOUT_QUOTAS: Final = frozenset(
    {Measure.RATE, Measure.RATE_TOTAL, Measure.THROTTLE, Measure.THROTTLE_TOTAL}
)
"""Measures of a bucket; all others are of a broker."""

_ASKABLE: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
"""Label names that PromQL accepts without quotes."""

_RATES: Final = frozenset({Measure.RATE, Measure.RATE_TOTAL})
_USER: Final = re.compile(r"(?:[A-Za-z0-9._-]|%[0-9A-Fa-f]{2})*", re.ASCII)
"""Output of Sanitizer.sanitize: the alphabet of URLEncoder, but ``*`` and spaces are percent-encoded."""

_PLAIN_CLIENT_ID: Final = re.compile(r"[A-Za-z0-9_%. \t-]*", re.ASCII)
"""Client ids that Sanitizer.jmxSanitize does not quote; all others are quoted with ObjectName.quote."""

_QUOTED: Final = re.compile(r'"((?:[^"*?\\\n]|\\["*?\\n])*)"', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def percent_decoded(text: str) -> str | None:
    """Decode a user encoded by Kafka (``Sanitizer.sanitize``); return ``None`` if Kafka cannot have written it.

    Kafka encodes UTF-8 bytes and has one encoding for each name. Other encodings and invalid UTF-8 are rejected.
    """
    if not _USER.fullmatch(text):
        return None
    if "%" not in text:
        return text
    try:
        decoded = unquote(text, errors="strict")
    except UnicodeDecodeError:
        return None
    return decoded if quote(decoded, safe="").replace("~", "%7E") == text else None


def unquoted(text: str) -> str | None:
    """Decode a client id in a JMX property value (``ObjectName.quote``); return ``None`` if it is invalid.

    Kafka quotes only ids with special characters. A special character without quotes means that a greedy exporter rule
    cut it out of a longer value: ``y"`` from ``"x, client-id=y"``.
    """
    if _PLAIN_CLIENT_ID.fullmatch(text):
        return text
    match = _QUOTED.fullmatch(text)
    if match is None:
        return None
    name = _ESCAPED.sub(lambda escape: "\n" if escape[1] == "n" else escape[1], match[1])
    return None if _PLAIN_CLIENT_ID.fullmatch(name) else name


def address(text: str) -> str | None:
    """Return an ip in canonical form, without JMX quotes; ``None`` if it is invalid."""
    plain = unquoted(text)
    try:
        return str(ipaddress.ip_address(plain if plain is not None else text))
    except ValueError:
        return None


def as_it_is(text: str) -> str | None:
    """Return the text unchanged."""
    return text


DECODERS: Final[dict[str, Callable[[str], str | None]]] = {
    "percent": percent_decoded,
    "object_name": unquoted,
    "address": address,
    "plain": as_it_is,
}
"""Decoders by their name in a dialect; each returns ``None`` for invalid text."""

_BAD: Final[dict[str, DropReason]] = {
    "user": DropReason.BAD_USER,
    "client_id": DropReason.BAD_CLIENT_ID,
    "ip": DropReason.BAD_IP,
}


class SeriesNames(NamedTuple):
    """What a series measures, with decoded names: one for all origins of a broker."""

    measure: Measure
    quota_type: str = ""  # "" for metrics of a broker
    user: str = ""
    client_id: str = ""
    ip: str = ""  # canonical


class SeriesMeaning(NamedTuple):
    """The meaning of the values of a series."""

    names: SeriesNames
    # The broker id in the labels of an identity series; "" = the value is the id.
    broker_id: str = ""


class DialectPart(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a dialect, as it is written in TOML."""


class MetricRule(DialectPart, frozen=True):
    """A metric name and its meaning; dialects.toml explains the fields."""

    name: re.Pattern[str]
    measure: Measure
    types: tuple[QuotaType, ...] = ()
    needs: tuple[str, ...] = ()
    id: tuple[str, ...] = ()

    def fits(self, name: str, labels: Collection[str]) -> re.Match[str] | None:
        """Return the match of the metric name if the series has the required labels, otherwise ``None``."""
        match = self.name.fullmatch(name)
        return match if match and all(label in labels for label in self.needs) else None


class NameRule(DialectPart, frozen=True):
    """The labels with a user, client id or ip, and their encoding."""

    labels: tuple[str, ...]
    decoder: Literal["percent", "object_name", "address", "plain"] = "plain"


class QuotaTypeLabel(DialectPart, frozen=True, rename={"unlisted": "or"}):
    """The label with the quota type, if it is not in the metric name."""

    label: str
    unlisted: str = ""
    pattern: re.Pattern[str] | None = None

    def __post_init__(self) -> None:
        if self.pattern is not None and "type" not in self.pattern.groupindex:
            raise ValueError("pattern should be one with a group (?P<type>…)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One way in which exporters name the metrics of brokers."""

    name: str  # the value of `--dialect`
    about: str
    metrics: tuple[MetricRule, ...]  # its own rules, then the common ones
    names: Mapping[str, NameRule]  # rules for `user`, `client_id` and `ip`
    type_label: QuotaTypeLabel | None  # the label with the quota type; None = in the metric name
    types: Mapping[str, QuotaType]
    refuse: Mapping[str, DropReason]  # labels whose presence drops a series, with the drop reason
    # Metric names that only this dialect has, among dialects with the same metrics.
    proof: tuple[re.Pattern[str], ...] = ()
    unless: tuple[re.Pattern[str], ...] = ()  # metric names that it never has
    # Metric names that contain client names.
    unread: tuple[re.Pattern[str], ...] = field(default=(), repr=False)

    def meaning(self, name: str, labels: Mapping[str, str]) -> SeriesMeaning | DropReason:
        """Return the meaning of a series, or why it is dropped."""
        fitting = ((metric, metric.fits(name, labels)) for metric in self.metrics)
        metric, match = next((pair for pair in fitting if pair[1]), (None, None))
        if metric is None or match is None:
            is_unread = _any_fits(self.unread, name)
            return DropReason.NAME_LOST if is_unread else DropReason.OTHER_METRIC
        for label, word in self.refuse.items():
            if labels.get(label):
                return word
        if metric.measure in ABOUT_QUOTAS:
            return self._of_quota(metric, match, labels)
        raw = next((labels[label] for label in metric.id if labels.get(label)), "")
        identity = broker_id(raw) if raw else ""
        if identity is None:
            return DropReason.BAD_BROKER_ID
        return SeriesMeaning(SeriesNames(metric.measure), identity)

    def is_needed(self, name: str) -> bool:
        """Whether series with this metric name must be read."""
        return any(metric.name.fullmatch(name) for metric in self.metrics)

    def excluded(self) -> tuple[str, ...]:
        """Return the refused labels that a query can exclude."""
        return tuple(label for label in sorted(self.refuse) if _ASKABLE.fullmatch(label))

    def has_quota_rate(self, name: str, labels: Collection[str]) -> bool:
        """Whether this metric with these label names is a quota rate in this dialect."""
        return any(
            metric.measure in _RATES and metric.fits(name, labels) for metric in self.metrics
        )

    def tells_of_quotas(self, name: str) -> bool:
        """Whether this metric name is about buckets, whatever its labels."""
        return any(
            metric.measure in ABOUT_QUOTAS and metric.name.fullmatch(name) is not None
            for metric in self.metrics
        )

    def _of_quota(
        self, metric: MetricRule, match: re.Match[str], labels: Mapping[str, str]
    ) -> SeriesMeaning | DropReason:
        user_beside = None
        kind = metric.types[0] if len(metric.types) == 1 else None
        spelling = match.groupdict().get("type")
        if spelling is None and self.type_label is not None:
            spelling = labels.get(self.type_label.label) or labels.get(self.type_label.unlisted, "")
            if self.type_label.pattern is not None and (spelling or kind is None):
                parts = self.type_label.pattern.fullmatch(spelling)
                if parts is None:
                    return DropReason.UNKNOWN_TYPE
                spelling = parts["type"]
                user_beside = parts.groupdict().get("user")
        if spelling or kind is None:
            quota_type = self.types.get(spelling or "")
            if quota_type not in metric.types:
                return DropReason.UNKNOWN_TYPE
            kind = quota_type
        decoded: dict[str, str] = {}
        for part in ("ip",) if kind is QuotaType.IP else ("user", "client_id"):
            name_rule = self.names.get(part)
            if name_rule is None:
                continue
            raw = next((labels[label] for label in name_rule.labels if labels.get(label)), "")
            if part == "user" and user_beside:
                raw = user_beside
            plain = DECODERS[name_rule.decoder](raw)
            if raw and plain is None:
                return _BAD[part]
            decoded[part] = plain or ""
        return SeriesMeaning(SeriesNames(metric.measure, kind.value, **decoded))


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectTable:
    """All known dialects."""

    all: tuple[Dialect, ...]

    def get(self, name: str) -> Dialect:
        """Return the dialect with this name.

        Raises:
            TelemetryError: There is none.
        """
        for dialect in self.all:
            if dialect.name == name:
                return dialect
        raise TelemetryError(f"unknown dialect {name!r}", hint=self._choices_text())

    def is_needed(self, name: str) -> bool:
        """Whether series with this metric name must be read in any dialect."""
        return any(dialect.is_needed(name) for dialect in self.all)

    def has_quota_rate(self, name: str, labels: Collection[str]) -> bool:
        """Whether this metric with these label names is a quota rate in any dialect."""
        return any(dialect.has_quota_rate(name, labels) for dialect in self.all)

    def excluded(self, name: str) -> tuple[str, ...]:
        """Return the labels that all dialects with this metric exclude in queries."""
        label_sets = [set(dialect.excluded()) for dialect in self.all if dialect.is_needed(name)]
        return tuple(sorted(set.intersection(*label_sets))) if label_sets else ()

    def select(
        self, labels_by_metric: Mapping[str, Collection[str]], before: Callable[[], str]
    ) -> tuple[Dialect, str]:
        """Return the dialect of a source; if no client has metrics, the one of the last run.

        Brokers remove the metrics of a client after an hour without traffic. An idle cluster therefore has only `up`,
        app-info and totals: that is zero use and not an error.

        Args:
            labels_by_metric: As in :meth:`detected`.
            before: Returns the dialect of the last run, "" = unknown; called only if needed.

        Returns:
            The dialect, and a remark if it is the one of the last run.

        Raises:
            TelemetryError: As in :meth:`detected`.
        """
        try:
            return self.detected(labels_by_metric), ""
        except TelemetryError:
            has_quota_metrics = any(
                _any_fits(dialect.unread, name) or dialect.tells_of_quotas(name)
                for dialect in self.all
                for name in labels_by_metric
            )
            last = "" if has_quota_metrics else before()
            for dialect in self.all:
                if dialect.name == last and any(
                    dialect.is_needed(name) for name in labels_by_metric
                ):
                    return (
                        dialect,
                        f"no client has metrics; read as an idle cluster in dialect {last} of the last run",
                    )
            raise

    def detected(self, labels_by_metric: Mapping[str, Collection[str]]) -> Dialect:
        """Detect the dialect of a source.

        Args:
            labels_by_metric: Label names of all series, by metric name.

        Raises:
            TelemetryError: No dialect matches, or more than one.
        """
        fitting = [
            dialect
            for dialect in self.all
            if any(
                dialect.has_quota_rate(name, labels) for name, labels in labels_by_metric.items()
            )
            and not any(_any_fits(dialect.unless, name) for name in labels_by_metric)
        ]
        distinguished = [
            dialect
            for dialect in fitting
            if any(_any_fits(dialect.proof, name) for name in labels_by_metric)
        ]
        match distinguished if len(fitting) > 1 and distinguished else fitting:
            case [dialect]:
                return dialect
            case []:
                raise TelemetryError(self._nothing(labels_by_metric), hint=self._choices_text())
            case candidates:
                candidate_names = ", ".join(dialect.name for dialect in candidates)
                names = _join_names(
                    name
                    for name, labels in labels_by_metric.items()
                    if any(dialect.has_quota_rate(name, labels) for dialect in candidates)
                )
                raise TelemetryError(
                    f"several dialects match: {candidate_names} (found {names})",
                    hint="choose one with --dialect; " + self._choices_text(),
                )

    def _nothing(self, labels_by_metric: Mapping[str, Collection[str]]) -> str:
        unread_metrics = sorted(
            name
            for name in labels_by_metric
            if any(_any_fits(dialect.unread, name) for dialect in self.all)
        )
        if unread_metrics:
            return (
                f"the exporter writes client names into metric names ({_join_names(unread_metrics)}), from which they cannot"
                " be parsed: its rule kafka.server<type=(.+)><>([a-z-]+) precedes those of the quotas"
            )
        return f"there is no metric of client quotas in a known dialect; found {_join_names(labels_by_metric) or 'nothing'}"

    def _choices_text(self) -> str:
        return "known: " + "; ".join(f"{dialect.name} ({dialect.about})" for dialect in self.all)


def _any_fits(patterns: Iterable[re.Pattern[str]], name: str) -> bool:
    return any(pattern.fullmatch(name) for pattern in patterns)


def _distance(name: str) -> int:
    """Return how far a metric name is from one of quotas: of their words, of Kafka, of anything else."""
    text = name.casefold()
    if any(word in text for word in _QUOTA_WORDS):
        return 0
    return 1 if "kafka" in text else 2


_QUOTA_WORDS: Final = ("quota", "throttle", "byte_rate", "request_time", "mutation_rate")


def _join_names(names: Iterable[str], max_names: int = 8) -> str:
    sorted_names = sorted(names, key=lambda name: (_distance(name), name))
    return ", ".join(sorted_names[:max_names]) + (
        f" and {len(sorted_names) - max_names} more" if len(sorted_names) > max_names else ""
    )
