"""T12 on the fixture: the forecast for each group from the half without limits, and the measurement in the other."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reconciler.usage.clients import (
    DEFAULT_BATCH_BYTES,
    RECORD_OVERHEAD,
    UNSTATED_CONSUMERS,
    UNSTATED_PRODUCERS,
    Clients,
    Span,
)
from reconciler.usage.impact.replay import forecasts
from reconciler.usage.impact.verdict import ForecastRange
from reconciler.usage.kernel.request_replay import likely, limited
from reconciler.usage.samples import QuotaType, thinned
from tests.recording import fixture, truth
from tests.recording.fixture import Case, FixtureRun
from tests.recording.truth import DELAY_BOUND, TIME_BOUND, Compared, Truth

RATE = "kafka_server_client_quota_byte_rate"
DELAY = "kafka_server_client_quota_throttle_time_ms"
LONGEST_BASELINE_MS = 500
"""A recording is valid if 99 of 100 records of each group take at most this long without limits; 1 s more is late."""

FIRST_UNSEEN = 9
"""From this run on, the recordings were made after the model was finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One group of one run."""

    run: int  # its number
    case: Case  # the group
    throttled: Compared  # throttled time, forecast and measured
    worst: Compared  # worst delay, forecast and measured
    observed_ms: int  # throttled time by the broker's own throttle-time
    truth: Truth  # all measurements
    stated: ForecastRange  # the shown forecast, with all that an owner can state
    unstated: ForecastRange  # the shown forecast if nothing is stated

    @property
    def time_is_within(self) -> bool:
        """Whether the throttled time is within its bound."""
        return self.throttled.within(TIME_BOUND, machine_ms=self.truth.machine_ms)

    @property
    def delay_is_within(self) -> bool:
        """Whether the worst delay is within its bound; of records that never arrived only a lower bound is known."""
        if self.truth.is_cut and self.worst.off > 0:
            return True
        return self.worst.within(DELAY_BOUND, machine_ms=self.truth.machine_ms)

    def contains(self, forecast_range: ForecastRange, *, within: bool = False) -> bool:
        """Whether the true values are inside a shown forecast, or outside by at most the bounds."""
        time_bound, delay_bound = (TIME_BOUND, DELAY_BOUND) if within else (0.0, 0.0)
        return is_between(
            self.truth.throttled_ms, [case.throttled_ms for case in forecast_range], time_bound
        ) and is_between(
            self.truth.worst_ms, [case.max_delay_ms or 0 for case in forecast_range], delay_bound
        )

    def line(self) -> str:
        """A row of the table."""
        case = self.case
        size = f", fetches of {case.fetch_bytes / case.limit:.1f} s" if case.kind == "fetch" else ""
        who = f"{self.run} | {case.kind} {case.shape}, {case.connections} x {case.record:,} B{size}"
        met = " and ".join(
            word
            for word, is_met in (("time", self.time_is_within), ("delay", self.delay_is_within))
            if is_met
        )
        return (
            f"| {who} | {_seconds(self.throttled)} | {_seconds(self.worst)} | {met or 'none'} |"
            f" {_interval(self.stated)} | {_interval(self.unstated)} | {self.observed_ms / 1000:.0f} |"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """One run: the sum of throttled time over its groups, and its worst delay."""

    run: int
    throttled: Compared
    worst: Compared
    is_cut: bool = False

    @property
    def is_within(self) -> bool:
        """Whether both figures are within the bounds of T12. For a half that ended with a backlog only the throttled
        time counts, and the forecast delay is larger than the measured one."""
        worst = self.worst.off > 0 if self.is_cut else self.worst.within(DELAY_BOUND)
        return self.throttled.within(TIME_BOUND) and worst


def is_between(true_ms: int, ends: Sequence[int], bound: float) -> bool:
    """Whether a value is between two others, or outside by at most a share of it."""
    return min(ends) - bound * true_ms <= true_ms <= max(ends) + bound * true_ms


def _interval(forecast_range: ForecastRange) -> str:
    """Throttled time and worst delay in seconds; "" if it is one figure."""
    best, worst = forecast_range
    if best == worst:
        return ""
    pairs = [
        (best.throttled_ms, worst.throttled_ms),
        (best.max_delay_ms or 0, worst.max_delay_ms or 0),
    ]
    return ", ".join(f"{low / 1000:.0f} to {high / 1000:.0f}" for low, high in pairs)


def rows(run: FixtureRun, skip: int = 0) -> tuple[Row, ...]:
    """All groups of a run; `skip` leaves out the first scrapes: another phase of the same recording."""
    rates, delays = truth.points_of(run.matrix, RATE), truth.points_of(run.matrix, DELAY)
    ((_, up),) = truth.points_of(run.matrix, "up").items()
    moments = thinned([at for at, _ in up][skip:])
    return tuple(_row(run, case, rates, delays, moments) for case in run.cases)


def _row(
    run: FixtureRun,
    case: Case,
    rates: truth.Families,
    delays: truth.Families,
    moments: tuple[int, ...],
) -> Row:
    kind, who = QuotaType(case.kind), (case.kind, case.user, case.client_id)
    samples = truth.samples(kind, rates[who], delays[who], scrapes=moments, scrape_ms=run.scrape_ms)
    demand = truth.demand(samples, run.free, run.scrape_ms)
    stated = clients(case)
    forecast = likely(limited(demand, case.limit), next(stated.best()))
    unstated = UNSTATED_PRODUCERS if stated.is_produce else UNSTATED_CONSUMERS
    true = truth.truth(case.free, case.limited)
    return Row(
        run=run.number,
        case=case,
        throttled=Compared(told_ms=forecast.throttled_ms, true_ms=true.throttled_ms),
        worst=Compared(told_ms=forecast.max_delay_ms or 0, true_ms=true.worst_ms),
        observed_ms=truth.observed(samples, run.limited) or 0,
        truth=true,
        stated=forecasts(kind, demand, case.limit, stated),
        unstated=forecasts(kind, demand, case.limit, unstated),
    )


BATCH_OVERHEAD = 61
"""Bytes of a record batch beside its records. The driver sends each record of a consumer's topic alone, unless they are late."""


def clients(case: Case) -> Clients:
    """What the owner of a group can state; each connection uses one partition."""
    connections = Span(case.connections, case.connections)
    if case.kind == "fetch":
        return Clients(
            is_produce=False,
            connections=connections,
            most_bytes=Span(case.fetch_bytes, case.fetch_bytes),
            part_bytes=Span(*[case.record + RECORD_OVERHEAD + BATCH_OVERHEAD] * 2),
        )
    return Clients(
        is_produce=True,
        connections=connections,
        most_bytes=Span(DEFAULT_BATCH_BYTES, DEFAULT_BATCH_BYTES),
        part_bytes=Span(*[case.record + RECORD_OVERHEAD] * 2),
        linger_ms=Span(case.linger_ms, case.linger_ms),
    )


def total(rows: Iterable[Row]) -> Total:
    """The sum of the rows of one run."""
    all_rows = tuple(rows)
    return Total(
        run=all_rows[0].run,
        throttled=Compared(
            told_ms=sum(row.throttled.told_ms for row in all_rows),
            true_ms=sum(row.throttled.true_ms for row in all_rows),
        ),
        worst=Compared(
            told_ms=max(row.worst.told_ms for row in all_rows),
            true_ms=max(row.worst.true_ms for row in all_rows),
        ),
        is_cut=any(row.truth.is_cut for row in all_rows),
    )


def table(skip: int = 0) -> str:
    """All rows and totals of the fixture as Markdown."""
    lines = [
        (
            "| run | group | throttled s, forecast / true | worst delay s, forecast / true | bound met"
            " | shown: throttled s, worst delay s | nothing stated: the same | broker reported s |"
        ),
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    totals: list[str] = []
    for number in fixture.numbers():
        run_rows = rows(fixture.read(number), skip)
        lines += [row.line() for row in run_rows]
        run_total = total(run_rows)
        totals.append(
            f"| {number} | {_seconds(run_total.throttled)} | {_seconds(run_total.worst)} |"
        )
    heads = [
        "",
        "| run | throttled s, forecast / true | worst delay s, forecast / true |",
        "| --- | --- | --- |",
    ]
    return "\n".join(lines + heads + totals)


def _seconds(figures: Compared) -> str:
    return (
        f"{figures.told_ms / 1000:.0f} / {figures.true_ms / 1000:.0f} ({figures.off * 100:+.0f} %)"
    )
