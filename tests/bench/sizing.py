"""T13: recommended limits for an unseen week, against the smallest limits that keep the promise of the tier."""

import csv
import datetime as dt
import random
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from reconciler.usage.recommendation.candidate_limits import smallest
from reconciler.usage.recommendation.limit_sizes import SILVER, WEEK_MS, Advice
from reconciler.usage.recommendation.trial import ThrottlePromise
from reconciler.usage.samples import DAY_MS, Censored, QuotaType
from tests.usage.recorded import SizingCase, recommend, trial
from tests.usage.reference import Sample

STEP_MS, DAYS, SEEDS = 300_000, 28, 40


def demand(seed: int) -> list[Sample]:
    """Four weeks of one seeded client: daily and weekly cycles, noise, rare spikes; all of it is unthrottled demand."""
    draw = random.Random(seed)
    level = 10 ** draw.uniform(4, 8)
    day, week, noise = draw.uniform(0, 0.8), draw.uniform(0, 0.4), draw.uniform(0.05, 0.6)
    spikes = draw.uniform(0, 0.004)
    samples: list[Sample] = []
    for n in range(DAYS * DAY_MS // STEP_MS):
        ts = n * STEP_MS + STEP_MS
        of_day = 1 + day * (1 if (ts % DAY_MS) > DAY_MS // 2 else -1)
        of_week = 1 - week * ((ts // DAY_MS) % 7 >= 5)
        rate = level * of_day * of_week * draw.lognormvariate(0, noise)
        if draw.random() < spikes:
            rate *= draw.uniform(2, 6)
        samples.append(Sample(ts - 1, STEP_MS, int(rate), 0, Censored.NO))
    return samples


def public(folder: Path) -> Iterable[tuple[str, list[Sample]]]:
    """Series of CSV files with `timestamp,value`; the last four weeks of each, or all of it, at least a fortnight."""
    for path in sorted(folder.rglob("*.csv")):
        with path.open(encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines))
        read: list[Sample] = []
        for row in rows:
            when = dt.datetime.fromisoformat(row["timestamp"]).replace(tzinfo=dt.UTC)
            ts = int(when.timestamp() * 1000)
            if not read or ts > read[-1].ts_ms:
                read.append(
                    Sample(ts, STEP_MS, max(0, round(float(row["value"]) * 1000)), 0, Censored.NO)
                )
        if len(read) > 1000 and read[-1].ts_ms - read[0].ts_ms >= 13 * DAY_MS:
            yield path.stem, read


def judged(series: Sequence[Sample]) -> tuple[Advice, float, float]:
    """The verdict, the test share over twice the promised one, the limit over the oracle's."""
    end = series[-1].ts_ms + 1
    case = SizingCase(
        kind=QuotaType.PRODUCE,
        series={"1": series},
        from_ms=max(0, series[0].ts_ms - STEP_MS),
        to_ms=end,
        max_gap_ms=STEP_MS,
    )
    recommendation = recommend(case, SILVER)
    if recommendation.target is None or recommendation.test is None:
        return recommendation.advice, 0.0, 0.0
    test = trial(QuotaType.PRODUCE, [series], end - WEEK_MS, end, STEP_MS)
    promise = ThrottlePromise(share_ppm=SILVER.share_ppm, max_delay_ms=SILVER.max_delay_ms)
    oracle = smallest(test.peak, lambda limit: test.keeps(limit, promise)) if test.peak else None
    return (
        recommendation.advice,
        recommendation.test.share_ppm / (2 * SILVER.share_ppm),
        recommendation.target / (oracle or 1),
    )


def t13(folder: Path | None) -> None:
    """The seeded fleet, and public series if a folder of them is given."""
    sets: dict[str, list[list[Sample]]] = {"seeded fleet": [demand(seed) for seed in range(SEEDS)]}
    if folder is not None:
        sets["public series"] = [series for _, series in public(folder)]
    for name, each in sets.items():
        judgements = [judged(series) for series in each]
        sized = [
            judgement
            for judgement in judgements
            if judgement[0] in {Advice.CHANGE, Advice.KEEP, Advice.REFUSED}
        ]
        if not sized:
            raise SystemExit(f"{name}: nothing could be sized")
        share = statistics.median(judgement[1] for judgement in sized)
        over = statistics.median(judgement[2] for judgement in sized)
        refused = sum(judgement[0] is Advice.REFUSED for judgement in sized)
        met = share <= 1 and over <= 1.3
        print(
            f"| T13 | {name}: {len(sized)} of {len(each)} sized, {refused} refused | test share {share:.2f} of 2s | {over:.2f} of the oracle | {'met' if met else 'MISSED'} |",
            flush=True,
        )
