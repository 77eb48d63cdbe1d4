"""What ``kquota spark ingest`` tells: text for people, JSON for programs."""

from collections.abc import Iterable, Mapping
from typing import Final

from reconciler.cli.ingest_told import AllTold, Told
from reconciler.render.documents import Json, dump
from reconciler.render.names import escaped
from reconciler.render.units import count, instant
from reconciler.telemetry.days import DayReport
from reconciler.telemetry.fates import SENTENCES as OURS
from reconciler.telemetry.series import SENTENCES as READERS
from reconciler.telemetry.series import Counts

KIND: Final = "kquota-ingest"
FORMAT: Final = 1
_SENTENCES: Final = {
    **{fate.value: text for fate, text in OURS.items()},
    **{word.value: text for word, text in READERS.items()},
}
MOST_DAYS: Final = 31
"""So many days stand in the text, the last ones; JSON has all."""


def json(told: AllTold) -> str:
    """A versioned document."""
    return dump(
        {
            "kind": KIND,
            "format": FORMAT,
            "lake": told.lake,
            "clusters": [_cluster_json(one) for one in told.clusters],
            "newLooks": told.looks,
            "newApplies": told.applies,
            "ofOtherClusters": told.strange,
            "counts": {word.value: number for word, number in told.counts.items()},
            "examples": {name: list(found) for name, found in _examples(told.counts).items()},
            "failures": list(told.failures),
        }
    )


def _cluster_json(told: Told) -> Json:
    return {
        "cluster": told.shown,
        "clusterId": told.cluster_id,
        "from": None if told.window is None else instant(told.window[0] / 1000),
        "to": None if told.window is None else instant(told.window[1] / 1000),
        "newPoints": sum(told.arrived.new.values()),
        "counts": _counts(told),
        "examples": {name: list(found) for name, found in _examples(told.arrived.counts).items()},
        "remarks": list(told.arrived.remarks),
        "days": [_day_json(one, told) for one in told.days],
        "published": None
        if told.published is None
        else {
            "uri": told.published[0],
            "from": instant(told.published[1] / 1000),
            "to": instant(told.published[2] / 1000),
        },
        "failures": list(told.failures),
    }


def _day_json(day: DayReport, told: Told) -> Json:
    return {
        "day": day.day.isoformat(),
        "newPoints": told.arrived.new.get(day.day, 0),
        "samples": day.samples,
        "assembled": day.made,
        "coveragePpm": dict(day.coverage),
        "counts": dict(day.counts),
        "partial": list(day.partial),
    }


def _counts(told: Told) -> dict[str, int]:
    read = {word.value: number for word, number in told.arrived.counts.items()}
    return read | told.arrived.tally.named()


def text(told: AllTold) -> str:
    """For people: per cluster what came, what is there now, and what was not used and why."""
    lines = [f"lake {escaped(told.lake)}"]
    if told.looks or told.applies or told.strange:
        strange = f"; {told.strange:,} of other clusters left alone" if told.strange else ""
        lines.append(
            f"limits: {count(told.looks, 'new look')}, {count(told.applies, 'new apply', 'new applies')}{strange}"
        )
    if told.counts:
        lines += ["files:", *_count_lines(_words(told.counts), _examples(told.counts))]
    for one in told.clusters:
        lines += _cluster_lines(one)
    return "\n".join(lines) + "\n"


def _words(counts: Counts) -> dict[str, int]:
    return {word.value: number for word, number in counts.items()}


def _cluster_lines(told: Told) -> Iterable[str]:
    name = escaped(told.shown)
    yield f"cluster {name}" + ("" if name == told.cluster_id else f" ({escaped(told.cluster_id)})")
    if told.window is not None:
        begin, end = told.window
        yield f"  asked for {instant(begin / 1000)} to {instant(end / 1000)}"
    yield f"  {count(sum(told.arrived.new.values()), 'new point')}"
    yield from (f"  {escaped(remark)}" for remark in told.arrived.remarks)
    yield from _count_lines(_counts(told), _examples(told.arrived.counts))
    if len(told.days) > MOST_DAYS:
        yield f"  {len(told.days) - MOST_DAYS:,} days before are not shown"
    for day in told.days[-MOST_DAYS:]:
        yield from _day_lines(day)
    if told.published is not None:
        place, begin, end = told.published
        yield f"  evidence from {instant(begin / 1000)} to {instant(end / 1000)} published at {escaped(place)}"


def _day_lines(day: DayReport) -> Iterable[str]:
    covered = ", ".join(
        f"broker {broker} {share / 10_000:.1f} %" for broker, share in day.coverage.items()
    )
    made = "assembled" if day.made else "as it was"
    yield f"  {day.day} {count(day.samples, 'sample')}, {made}; covered: {covered or 'nothing'}"
    yield from (f"    PARTIAL: {escaped(one)}" for one in day.partial)
    if day.made:
        yield from (f"  {line}" for line in _count_lines(day.counts))


def _examples(counts: Counts) -> dict[str, tuple[str, ...]]:
    """Where something was counted, as far as it was told."""
    return {word.value: found for word in counts if (found := counts.examples(word))}


def _count_lines(
    counts: Mapping[str, int], examples: Mapping[str, tuple[str, ...]] | None = None
) -> Iterable[str]:
    for name, number in counts.items():
        yield f"    {number:,} {name}: {_SENTENCES[name]}"
        yield from (f"      {escaped(one)}" for one in (examples or {}).get(name, ()))
