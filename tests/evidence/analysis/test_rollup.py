"""Sums and histograms of a day equal those that are computed sample by sample."""

import random
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest

from reconciler.evidence.analysis import rollup
from reconciler.evidence.store.files import arrow_tables
from reconciler.usage.kernel import histogram as kernel
from reconciler.usage.kernel.histogram import BOUNDS
from reconciler.usage.samples import MAX_UNITS
from reconciler.usage.tables import USAGE_5M, USAGE_HIST_D, USAGE_SAMPLE
from tests.evidence.analysis import lakes


@pytest.mark.parametrize("seed", range(6))
def test_a_rollup_equals_the_sums_of_the_samples(tmp_path: Path, seed: int) -> None:
    lake = lakes.lake(tmp_path)
    rows = lakes.samples("b", lakes.day(0), seed=seed, series=7)
    lakes.commit(lake, "b", lakes.day(0), rows)
    expected = lakes.expected(rows)
    for table in (USAGE_5M, USAGE_HIST_D):
        assert lakes.rows_of(lake, table) == expected[table.name], table.name


def test_a_day_without_samples_has_an_empty_rollup() -> None:
    nothing = arrow_tables.schema(USAGE_SAMPLE).empty_table()
    assert rollup.usage_5m(nothing).num_rows == 0
    assert rollup.usage_hist_d(nothing).num_rows == 0


def test_rates_at_and_beside_a_bound_lie_in_the_bucket_of_the_definition() -> None:
    near = {bound + step for bound in BOUNDS for step in (-1, 0, 1)}
    rates = sorted(rate for rate in near | {0, MAX_UNITS} if 0 <= rate <= MAX_UNITS)
    for rate, bucket in zip(rates, kernel.bucket_indexes(pa.array(rates).to_numpy()), strict=True):
        assert bucket == 0 if rate == 0 else BOUNDS[bucket - 1] <= rate < BOUNDS[bucket]


def test_a_percentile_is_that_of_the_first_bucket_that_covers_the_share() -> None:
    draw = random.Random(3)
    for _ in range(50):
        entries = [
            (draw.randrange(4), draw.randrange(1, 60), draw.randrange(1, 10**9)) for _ in range(90)
        ]
        entries += [(number, 5, 1) for number in range(4)]
        numbers, buckets, counts = (
            pa.array(column).to_numpy() for column in zip(*entries, strict=True)
        )
        result = kernel.percentiles(numbers, buckets, counts, (500_000, 950_000, 1_000_000))
        for number in range(4):
            weights: defaultdict[int, int] = defaultdict(int)
            for series, bucket, weight in entries:
                if series == number:
                    weights[bucket] += weight
            total = sum(weights.values())
            for ppm, values in zip((500_000, 950_000, 1_000_000), result, strict=True):
                passed = 0
                for bucket in sorted(weights):
                    passed += weights[bucket]
                    if passed * 1_000_000 >= ppm * total:
                        break
                assert values[number] == BOUNDS[bucket] - 1
