"""The values of reports."""

from tests.render.use_reports import HOUR, client_page


def test_the_distance_of_a_moment_is_zero_within_a_throttled_time() -> None:
    (row,) = client_page().throttled
    moments = (row.begin_ms - HOUR, row.begin_ms, row.end_ms, row.end_ms + 5, None)
    assert [row.distance_ms(at_ms) for at_ms in moments] == [HOUR, 0, 0, 5, 0]
