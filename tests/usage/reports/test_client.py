"""The values of reports."""

import subprocess
import sys

from tests.render.use_reports import HOUR, client_page

MODULES = ("reconciler.usage.reports.client", "reconciler.app.post.recommendations")


def test_reports_are_read_and_rendered_without_numpy() -> None:
    """`kquota post recommendations` needs no extra."""
    code = f"import sys, {', '.join(MODULES)}; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_distance_of_a_moment_is_zero_within_a_throttled_time() -> None:
    (row,) = client_page().throttled
    moments = (row.begin_ms - HOUR, row.begin_ms, row.end_ms, row.end_ms + 5, None)
    assert [row.distance_ms(at_ms) for at_ms in moments] == [HOUR, 0, 0, 5, 0]
