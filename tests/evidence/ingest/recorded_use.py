"""Recorded use as in Prometheus, in the dialect of jmx_exporter's examples: for fakes, files and blocks."""

from collections.abc import Iterator, Mapping, Sequence

from tests.fakes.prometheus import FakePrometheus

STEP = 30_000
RATE = "kafka_server_quota_byte_rate"
DELAY = "kafka_server_quota_throttle_time"
IDENTITY = "kafka_server_app_info"

Recorded = list[tuple[str, dict[str, str], list[tuple[int, str]]]]


def recorded(
    begin: int, count: int, *, brokers: int = 2, cluster: str = "orders", users: int = 2
) -> Recorded:
    """Brokers that answer every 30 s; each user produces more at each scrape."""
    series: Recorded = []
    for broker in range(1, brokers + 1):
        own = {"cluster": cluster, "instance": f"{cluster}-{broker}:7071"}
        at = [begin + broker * 137 + number * STEP for number in range(count)]
        series.append(("up", own, [(ts, "1") for ts in at]))
        series.append((IDENTITY, own | {"id": str(broker)}, [(ts, "1") for ts in at]))
        for user in range(users):
            tags = own | {"resource": "Produce", "user": f"u{user}"}
            rates = [(ts, str(1000.0 * (user + 1) + number)) for number, ts in enumerate(at)]
            series.append((RATE, tags, rates))
            series.append((DELAY, tags, [(ts, "NaN") for ts in at]))
    return series


def put(server: FakePrometheus, series: Recorded) -> None:
    for name, labels, points in series:
        server.put(name, points, **labels)


def openmetrics(series: Recorded) -> str:
    return "\n".join([*_lines(series), "# EOF\n"])


def _lines(series: Recorded) -> Iterator[str]:
    for name, labels, points in sorted(
        series, key=lambda entry: (entry[0], sorted(entry[1].items()))
    ):
        label_text = ",".join(f'{label}="{value}"' for label, value in labels.items())
        yield from (f"{name}{{{label_text}}} {value} {at / 1000}" for at, value in points)


def between(series: Recorded, begin: int, end: int) -> Recorded:
    return [
        (name, labels, [point for point in points if begin <= point[0] < end])
        for name, labels, points in series
    ]


def comparable_rows(rows: Sequence[Mapping[str, object]]) -> list[tuple[object, ...]]:
    """The relevant columns of samples, sorted."""
    names = (
        "cluster_id",
        "broker_id",
        "quota_type",
        "user",
        "ts_ms",
        "dt_ms",
        "rate_units",
        "throttle_ms",
    )
    return sorted(tuple(row[name] for name in names) for row in rows)
