"""Dialects: which metric and labels say what, as a table (dialects.toml) says; and which dialect a source speaks."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from reconciler.errors import TelemetryError
from reconciler.telemetry.names import DECODERS
from reconciler.telemetry.series import Word
from reconciler.telemetry.settings import broker_id
from reconciler.usage.samples import QuotaType
from reconciler.usage.tables import Measure

ABOUT_QUOTAS: Final = frozenset(
    {
        Measure.RATE, Measure.RATE_TOTAL, Measure.THROTTLE, Measure.THROTTLE_TOTAL, Measure.UTILIZATION,
    }
)  # fmt: skip
"""Measures of one bucket; the others are of a broker."""

_ASKABLE: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
"""Names of labels that every PromQL reads without quotes."""

_RATES: Final = frozenset({Measure.RATE, Measure.RATE_TOTAL})
_BAD: Final[dict[str, Word]] = {
    "user": Word.BAD_USER,
    "client_id": Word.BAD_CLIENT_ID,
    "ip": Word.BAD_IP,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What the values of a series are.

    Attributes:
        measure: What is measured.
        quota_type: Of which quota; "" where it is the broker's.
        user: Decoded, or "".
        client_id: Decoded, or "".
        ip: Canonical, or "".
        factor: What values are multiplied with.
        broker_id: The id that labels give, where the series tells which broker an instance is; "" = its value does.
    """

    measure: Measure
    quota_type: str = ""
    user: str = ""
    client_id: str = ""
    ip: str = ""
    factor: float = 1.0
    broker_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One line of the table: a name and what it means. The words are explained in dialects.toml."""

    name: re.Pattern[str]
    measure: Measure
    types: tuple[QuotaType, ...] = ()
    needs: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    factor: float = 1.0

    def fits(self, name: str, labels: Collection[str]) -> re.Match[str] | None:
        """Whether a series is of this metric: the match of its name, if it also has the labels."""
        found = self.name.fullmatch(name)
        return found if found and all(one in labels for one in self.needs) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """Where a user, a client id or an ip stands, and how it is written."""

    labels: tuple[str, ...]
    decoder: str
    none: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeLabel:
    """Where the quota type stands, if not in the metric's name."""

    label: str
    other: str = ""
    pattern: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One way in which brokers are exported.

    Attributes:
        name: What ``--dialect`` calls it.
        about: Where it comes from, for people.
        metrics: Its own lines, then those that every dialect has.
        names: By ``user``, ``client_id`` and ``ip``.
        type_label: Where the quota type stands; ``None`` = in the metric's name.
        types: How quota types are spelled.
        refuse: Labels whose presence means that a series is not read, and the word it is counted under.
        proof: Names that only this dialect has, among those that share its metrics.
        unless: Names that it never has.
        lost: Names that have a client spelled out in them.
    """

    name: str
    about: str
    metrics: tuple[Metric, ...]
    names: Mapping[str, Name]
    type_label: TypeLabel | None
    types: Mapping[str, QuotaType]
    refuse: Mapping[str, Word]
    proof: tuple[re.Pattern[str], ...] = ()
    unless: tuple[re.Pattern[str], ...] = ()
    lost: tuple[re.Pattern[str], ...] = field(default=(), repr=False)

    def meaning(self, name: str, labels: Mapping[str, str]) -> Meaning | Word:
        """What a series says, or the word that it is counted under."""
        metric, found = self._metric(name, labels)
        if metric is None or found is None:
            lost = any(one.fullmatch(name) for one in self.lost)
            return Word.NAME_LOST if lost else Word.OTHER_METRIC
        for label, word in self.refuse.items():
            if labels.get(label):
                return word
        if metric.measure is Measure.BROKER_ID:
            return _identity(metric, labels)
        if metric.measure not in ABOUT_QUOTAS:
            return Meaning(measure=metric.measure, factor=metric.factor)
        return self._of_quota(metric, found, labels)

    def wanted(self, name: str) -> bool:
        """Whether series of this name have to be read."""
        return any(one.name.fullmatch(name) for one in self.metrics)

    def excluded(self) -> tuple[str, ...]:
        """Labels without which a series has to be, as a query can say it."""
        return tuple(one for one in sorted(self.refuse) if _ASKABLE.fullmatch(one))

    def speaks(self, name: str, labels: Collection[str]) -> bool:
        """Whether this metric, with labels of these names, tells rates of quotas in this dialect."""
        return any(one.measure in _RATES and one.fits(name, labels) for one in self.metrics)

    def tells_of_quotas(self, name: str) -> bool:
        """Whether this metric may say something of buckets, whatever its labels are."""
        return any(
            one.measure in ABOUT_QUOTAS and one.name.fullmatch(name) is not None
            for one in self.metrics
        )

    def _metric(
        self, name: str, labels: Mapping[str, str]
    ) -> tuple[Metric | None, re.Match[str] | None]:
        for one in self.metrics:
            found = one.fits(name, labels)
            if found:
                return one, found
        return None, None

    def _of_quota(
        self, metric: Metric, found: re.Match[str], labels: Mapping[str, str]
    ) -> Meaning | Word:
        user_beside = None
        kind = metric.types[0] if len(metric.types) == 1 else None
        spelled = found.groupdict().get("type")
        if spelled is None and self.type_label is not None:
            spelled = labels.get(self.type_label.label) or labels.get(self.type_label.other, "")
            if self.type_label.pattern is not None and (spelled or kind is None):
                parts = self.type_label.pattern.fullmatch(spelled)
                if parts is None:
                    return Word.UNKNOWN_TYPE
                spelled = parts["type"]
                user_beside = parts.groupdict().get("user")
        if spelled or kind is None:
            known = self.types.get(spelled or "")
            if known not in metric.types:
                return Word.UNKNOWN_TYPE
            kind = known
        return self._named(metric, kind, labels, user_beside)

    def _named(
        self, metric: Metric, kind: QuotaType, labels: Mapping[str, str], user_beside: str | None
    ) -> Meaning | Word:
        decoded: dict[str, str] = {}
        for part in ("ip",) if kind is QuotaType.IP else ("user", "client_id"):
            where = self.names.get(part)
            if where is None:
                continue
            raw = next((labels[one] for one in where.labels if labels.get(one)), "")
            if part == "user" and user_beside:
                raw = user_beside
            if not raw or raw in where.none:
                continue
            plain = DECODERS[where.decoder](raw)
            if plain is None:
                return _BAD[part]
            decoded[part] = plain
        return Meaning(
            measure=metric.measure, quota_type=kind.value, factor=metric.factor, **decoded
        )


def _identity(metric: Metric, labels: Mapping[str, str]) -> Meaning | Word:
    raw = next((labels[one] for one in metric.id if labels.get(one)), "")
    if not raw:
        return Meaning(measure=metric.measure)
    found = broker_id(raw)
    return Word.BAD_BROKER_ID if found is None else Meaning(measure=metric.measure, broker_id=found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialects:
    """All dialects that are known.

    Attributes:
        all: In the order of the table.
    """

    all: tuple[Dialect, ...]

    def named(self, name: str) -> Dialect:
        """The dialect of this name.

        Raises:
            TelemetryError: There is none.
        """
        for one in self.all:
            if one.name == name:
                return one
        raise TelemetryError(f"no dialect is called {name!r}", hint=self._known())

    def interesting(self, name: str) -> bool:
        """Whether any dialect, or any rule about lost names, knows this metric."""
        return any(
            one.wanted(name) or any(lost.fullmatch(name) for lost in one.lost) for one in self.all
        )

    def excluded(self, name: str) -> tuple[str, ...]:
        """Labels without which a series of this metric has to be, whichever dialect is spoken."""
        several = [set(one.excluded()) for one in self.all if one.wanted(name)]
        return tuple(sorted(set.intersection(*several))) if several else ()

    def spoken(
        self, seen: Mapping[str, Collection[str]], before: Callable[[], str]
    ) -> tuple[Dialect, str]:
        """The dialect of a source; where nobody is named, the one that was spoken the last time.

        Brokers forget a client after an hour without traffic. So a cluster at rest shows `up`, app-info and totals
        alone, which is zero use and no error.

        Args:
            seen: As for :meth:`detected`.
            before: Gives the name of the dialect of the last time, "" = not known; asked only where it is needed.

        Returns:
            The dialect, and a remark if it was not found but remembered.

        Raises:
            TelemetryError: As for :meth:`detected`.
        """
        try:
            return self.detected(seen), ""
        except TelemetryError:
            named = any(
                _any_fits(one.lost, name) or one.tells_of_quotas(name)
                for one in self.all
                for name in seen
            )
            last = "" if named else before()
            for one in self.all:
                if one.name == last and any(one.wanted(name) for name in seen):
                    return one, f"no client is named; read as a cluster at rest, in dialect {last} as the last time"  # fmt: skip
            raise

    def detected(self, seen: Mapping[str, Collection[str]]) -> Dialect:
        """The dialect of a source.

        Args:
            seen: Names of metrics, each with the names of all labels that its series have.

        Raises:
            TelemetryError: None fits, or more than one does.
        """
        fitting = [
            one
            for one in self.all
            if any(one.speaks(name, labels) for name, labels in seen.items())
            and not any(_any_fits(one.unless, name) for name in seen)
        ]
        proved = [one for one in fitting if any(_any_fits(one.proof, name) for name in seen)]
        match proved if len(fitting) > 1 and proved else fitting:
            case [one]:
                return one
            case []:
                raise TelemetryError(self._nothing(seen), hint=self._known())
            case several:
                listed = ", ".join(one.name for one in several)
                names = _listed(
                    name
                    for name, labels in seen.items()
                    if any(one.speaks(name, labels) for one in several)
                )
                raise TelemetryError(
                    f"more than one dialect fits what is there: {listed} (found {names})",
                    hint="say which one with --dialect; " + self._known(),
                )

    def _nothing(self, seen: Mapping[str, Collection[str]]) -> str:
        lost = sorted(name for name in seen if any(_any_fits(one.lost, name) for one in self.all))
        if lost:
            return (
                f"the exporter writes the names of clients into the names of metrics ({_listed(lost)}), where they cannot"
                " be read back: its rule kafka.server<type=(.+)><>([a-z-]+) stands before those of the quotas"
            )
        return f"no metric of client quotas in a known dialect is there; found {_listed(seen) or 'nothing'}"

    def _known(self) -> str:
        return "known are " + "; ".join(f"{one.name} ({one.about})" for one in self.all)


def _any_fits(patterns: Iterable[re.Pattern[str]], name: str) -> bool:
    return any(one.fullmatch(name) for one in patterns)


def _listed(names: Iterable[str], most: int = 8) -> str:
    several = sorted(names)
    return ", ".join(several[:most]) + (
        f" and {len(several) - most} more" if len(several) > most else ""
    )
