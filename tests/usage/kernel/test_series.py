"""Series as columns: impossible values are refused; spans, sums and times equal the same rules row by row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.usage.kernel import series
from reconciler.usage.kernel.series import COLUMNS, NOTHING, summed
from reconciler.usage.samples import MAX_UNITS, Censored
from tests.usage import reference
from tests.usage.reference import Sample, columns, samples_of

samples = st.lists(
    st.builds(
        Sample,
        st.integers(0, 20),
        st.integers(1, 3),
        st.integers(0, 9) | st.just(MAX_UNITS),
        st.sampled_from([None, 0, 4]),
        st.sampled_from(Censored),
    ),
    unique_by=lambda sample: sample.ts_ms,
    max_size=12,
).map(sorted)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([Sample(2, 1, 0), Sample(2, 1, 0)], "2 comes after 2"),
        ([Sample(1, 0, 0)], "over 0 ms"),
        ([Sample(1, 1, -1)], "-1 units"),
        ([Sample(1, 1, MAX_UNITS + 1)], "units over"),
    ],
)
def test_impossible_samples_are_refused(rows, message):
    with pytest.raises(QuotaValueError, match=message):
        columns(rows)


@given(samples, st.randoms(use_true_random=False))
def test_samples_in_any_order_give_the_same_series(rows, chance):
    shuffled = list(rows)
    chance.shuffle(shuffled)
    assert samples_of(columns(shuffled)) == rows


@given(st.lists(samples, max_size=4), st.randoms(use_true_random=False))
def test_sums_equal_the_reference_for_any_order_of_the_parts(parts, chance):
    shuffled = list(parts)
    chance.shuffle(shuffled)
    assert samples_of(summed(list(map(columns, shuffled)))) == list(reference.summed(parts))


@given(samples, st.integers(-1, 21), st.integers(-1, 21))
def test_times_and_spans_equal_the_reference_row_by_row(rows, from_ms, to_ms):
    series = columns(rows)
    assert series.covered_ms == reference.covered_ms(rows)
    assert series.censored_ms == reference.censored_ms(rows)
    assert series.throttled_ms == reference.throttled_ms(rows)
    assert series.peak == max((row.rate_units for row in rows), default=0)
    assert series.wanted_more == any(row.censored is Censored.YES for row in rows)
    assert series.may_have_wanted_more == any(row.censored is not Censored.NO for row in rows)
    span = series.between(from_ms, max(from_ms, to_ms))
    assert samples_of(span) == list(reference.between(rows, from_ms, to_ms))


def test_an_empty_list_of_samples_is_a_series():
    assert len(NOTHING) == len(summed([])) == 0
    assert NOTHING.throttled_ms == 0


@given(st.lists(st.integers(0, 2), min_size=1, max_size=30))
def test_runs_begin_where_any_column_changes(keys):
    column = np.array(keys)
    changes = column[1:] != column[:-1]
    begins = series.beginnings(len(keys), [changes]).tolist()
    expected = [at for at in range(len(keys)) if at == 0 or keys[at] != keys[at - 1]]
    assert begins == expected


@given(st.integers(0, 12))
def test_a_series_split_into_two_runs_is_read_unchanged(cut):
    rows = [
        Sample(2**40 + n, 300_000, MAX_UNITS - n, None if n % 3 else 2**40, Censored.YES)
        for n in range(12)
    ]
    whole_series = columns(rows)
    begins = np.array([0] if cut in {0, 12} else [0, cut])
    values = {name: getattr(whole_series, name) for name in COLUMNS}
    assert samples_of(series.joined(list(series.cut(values, begins))[::-1])) == rows
