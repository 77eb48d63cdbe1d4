"""Histograms: the table of bounds against exact powers."""

import hashlib

from reconciler.usage.kernel.histogram import BOUNDS, STEPS
from reconciler.usage.samples import MAX_UNITS


def test_the_bounds_are_the_powers_rounded_up():
    for n, bound in enumerate(BOUNDS):
        assert (bound - 1) ** STEPS < 2**n <= bound**STEPS
    assert BOUNDS[-2] <= MAX_UNITS < BOUNDS[-1]


def test_the_table_never_changes_because_stored_histograms_depend_on_it():
    text = ",".join(map(str, BOUNDS))
    assert (len(BOUNDS), BOUNDS[:2], BOUNDS[320]) == (1383, (1, 2), 1024)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "386fd2cab5e92732"
