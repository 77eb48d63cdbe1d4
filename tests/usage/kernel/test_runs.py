"""Runs of samples are joined to the series that they were cut from."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reconciler.usage.kernel import runs
from reconciler.usage.kernel.series import COLUMNS
from reconciler.usage.samples import MAX_UNITS, Censored
from tests.usage.reference import Sample, columns, samples_of


@given(st.lists(st.integers(0, 2), min_size=1, max_size=30))
def test_runs_begin_where_any_column_changes(keys):
    column = np.array(keys)
    changes = column[1:] != column[:-1]
    begins = runs.beginnings(len(keys), [changes]).tolist()
    expected = [at for at in range(len(keys)) if at == 0 or keys[at] != keys[at - 1]]
    assert begins == expected


@given(st.integers(0, 12))
def test_a_series_split_into_two_runs_is_read_unchanged(cut):
    rows = [
        Sample(2**40 + n, 300_000, MAX_UNITS - n, None if n % 3 else 2**40, Censored.YES)
        for n in range(12)
    ]
    series = columns(rows)
    begins = np.array([0] if cut in {0, 12} else [0, cut])
    values = {name: getattr(series, name) for name in COLUMNS}
    assert samples_of(runs.joined(list(runs.cut(values, begins))[::-1])) == rows
