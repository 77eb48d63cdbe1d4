"""Tests of the benchmarks of recorded use: each target has a module, tables show measured values, old rows stay."""

import inspect
import math
import re

import pytest

from tests.bench import operator_curve, page, use
from tests.bench.__main__ import CURVE, PARTS, REQUESTS, chosen_of, used, written
from tests.bench.exactness import counted
from tests.bench.harness import Figures, Row
from tests.bench.replay import is_short_of_memory
from tests.bench.use import Measured

ABOUT = {name: words for name, (words, _) in use.TARGETS.items()}
PAGE = (
    "before\n<!-- measured: codec -->\nold\n<!-- /measured: codec -->\n"
    "<!-- measured: plan -->\nkept\n<!-- /measured: plan -->\nbetween\n"
    "<!-- measured: use --><!-- /measured: use -->\n"
    "<!-- measured: crossover --><!-- /measured: crossover -->\nafter\n"
)


def row(*, value: float = 2.0, bar: str = "<= 3x", work: str = "work", peer: str = "peer") -> Row:
    return Row(
        work=work,
        peer=peer,
        figures=Figures(samples=(value, value * 2, value * 3)),
        peer_figures=Figures(samples=(1.0,)),
        unit="s",
        bar=bar,
        verdict=lambda ratio: ratio <= 3,
        value=value,
    )


def measured(target: str = "T5", **more: object) -> Measured:
    return Measured(target=target, row=row(**more), when="2026-11-21, load 1.0 to 1.0, 3 samples")


def test_all_targets_are_defined():
    assert list(use.TARGETS) == ["T5", "T8", "T11", "T12", "T13"]
    assert all(
        list(inspect.signature(rows).parameters) == ["scale"] for _, rows in use.TARGETS.values()
    )


@pytest.mark.parametrize(
    ("words", "parts", "targets"),
    [
        (["T5"], [], ["T5"]),
        (["use"], [], list(use.TARGETS)),
        (["evidence"], [], ["T5"]),
        (["plan", "T12", "T8"], ["plan"], ["T8", "T12"]),
    ],
)
def test_only_selects_parts_and_targets(words, parts, targets):
    assert chosen_of(words) == (parts, targets)


def test_without_only_everything_is_measured():
    parts, targets = chosen_of(None)
    assert parts[0] == "codec"
    assert targets == list(use.TARGETS)


def curve_rows(count: int, *, load: str, wall: float) -> list[Row]:
    """Two figures of one size."""
    when = f"2026-11-23, load {load}"
    change, ready = (
        next(figure for figure in operator_curve.FIGURES if figure.name == name)
        for name in ("change", "ready")
    )
    return [
        operator_curve.curve_row(change, count, [wall, wall, 2 * wall], when),
        operator_curve.curve_row(ready, count, [wall], when),
    ]


def test_a_size_that_is_measured_again_replaces_its_column_alone():
    works = [figure.work for figure in operator_curve.FIGURES if figure.name in {"change", "ready"}]
    first = page.curve(curve_rows(5_000, load="1.0 to 2.0", wall=0.6), works, "not measured yet")
    both = page.curve(curve_rows(1_000, load="3.0 to 3.0", wall=0.9), works, first)
    again = page.curve(curve_rows(1_000, load="0.5 to 0.6", wall=0.5), works, both)
    assert again.splitlines() == [
        "| | 1,000 documents | 5,000 documents |",
        "| --- | --- | --- |",
        "| all documents Ready, wall | 0.5 s | 0.6 s |",
        f"| {works[1]} | 0.5 s (0.5-1); <= 0.7 s: met | 0.6 s (0.6-1.2); <= 0.7 s: met |",
        "| taken | 2026-11-23, load 0.5 to 0.6 | 2026-11-23, load 1.0 to 2.0 |",
    ]
    assert "0.9 s (0.9-1.8); <= 0.7 s: **missed** | 0.6 s (0.6-1.2)" in both


def test_each_figure_of_the_operator_has_a_line_of_its_own():
    works = [figure.work for figure in operator_curve.FIGURES]
    assert len(set(works)) == len(works)


def test_a_figure_that_was_not_measured_is_printed_as_not_measured_yet():
    rows = curve_rows(5_000, load="1.0 to 2.0", wall=0.6)
    assert "| another figure | not measured yet |" in page.curve(rows, ["another figure"])


def test_full_is_the_size_of_the_targets_and_small_is_smaller():
    full, small = use.SCALES["full"], use.SCALES["small"]
    assert full.crossed == (1_000_000, 5_000_000, 25_000_000, 100_000_000)
    assert full.rounds >= 5
    assert small.seeds < full.seeds == 50


def test_a_trial_is_labelled_and_shows_the_load_of_the_machine(monkeypatch):
    monkeypatch.setitem(use.TARGETS, "T5", ("about", lambda scale: iter([row()])))
    (small,) = use.measured("T5", use.SMALL)
    (full,) = use.measured("T5", use.FULL)
    assert small.when.endswith("3 samples, only a trial")
    assert full.when.endswith("3 samples")
    assert "load " in full.when


def test_a_failed_target_is_reported_and_the_next_one_runs(monkeypatch, capsys):
    def fails(scale: object):
        raise SystemExit("no Java")
        yield

    monkeypatch.setitem(use.TARGETS, "T5", ("about", fails))
    monkeypatch.setitem(use.TARGETS, "T8", ("about", lambda scale: iter([row()])))
    assert [measurement.target for measurement in used(["T5", "T8"], use.SMALL)] == ["T8"]
    assert "T5 could not be measured: SystemExit('no Java')" in capsys.readouterr().err


def test_a_missed_target_is_printed_as_missed():
    assert "| 4.00 | <= 3x | **missed** |" in page.line(measured(value=4.0))
    assert "| 2.00 | <= 3x | met |" in page.line(measured())


def test_a_target_without_a_bar_has_no_verdict():
    assert "| 2.00 | - |  | 2026" in page.line(measured(bar=page.NO_BAR))


def test_targets_without_a_measurement_are_printed_as_not_measured_yet():
    text = written(PAGE, {}, [measured()])
    assert "| T5 | work | peer |" in text
    assert text.count("not measured yet") == 4
    assert all(line.count("|") == 10 for line in text.splitlines() if line.startswith("| T"))


def test_new_rows_replace_the_rows_of_their_target_and_others_remain():
    first = written(PAGE, {}, [measured("T5", work="old"), measured("T12", work="kept")])
    second = written(first, {}, [measured("T5", work="new")])
    assert "old" not in page.between(second, "measured: use")
    assert "| T5 | new |" in second
    assert "| T12 | kept |" in second
    assert second.index("| T5 |") < second.index("| T8 |") < second.index("| T12 |")
    assert second.startswith("before")
    assert second.endswith("after\n")
    assert "old" in page.between(second, "measured: codec")


def test_a_new_part_replaces_its_own_table_only():
    text = written(PAGE, {"codec": page.table([row(work="new")])}, [])
    assert "| new | peer |" in page.between(text, "measured: codec")
    assert "old" not in text
    assert page.between(text, "measured: plan").strip() == "kept"


def test_a_page_without_marks_is_refused():
    with pytest.raises(SystemExit, match="no marks of measured: use"):
        page.between("nothing", "measured: use")


def test_the_page_for_users_repeats_figures_that_were_measured():
    users = (page.PAGE.parents[2] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    rows = [line for line in users.splitlines() if line.startswith("| ")]
    figures = {figure for row in rows for figure in re.findall(r"\d+\.\d+", row)}
    assert figures
    assert figures <= set(re.findall(r"\d+\.\d+", page.PAGE.read_text(encoding="utf-8")))


def test_the_marks_are_in_the_page_and_every_target_in_its_table():
    text = page.PAGE.read_text(encoding="utf-8")
    for part in (*PARTS, CURVE, REQUESTS, "crossover"):
        assert page.between(text, f"measured: {part}").strip()
    table = page.between(text, "measured: use")
    assert all(f"\n| {target} |" in table for target in ABOUT)


def test_the_crossover_has_a_line_for_each_size_and_names_runs_that_did_not_finish():
    rows = [
        row(work=f"simulate {size} samples on 2 cores, warm", peer=peer)
        for size in ("1,000", "5,000")
        for peer in ("DuckDB", "Polars", "local engine")
    ]
    never = Row(
        work=rows[-1].work,
        peer="local engine",
        figures=rows[-1].figures,
        peer_figures=Figures(samples=(math.inf,)),
        unit="s",
        bar=page.NO_BAR,
        verdict=lambda _: True,
        value=0.0,
    )
    lines = page.crossover([*rows[:-1], never]).splitlines()
    assert lines[2] == "| 1,000 | 4 s (2-6) | 1 s (1-1) | 1 s (1-1) | 1 s (1-1) |"
    assert lines[3] == "| 5,000 | 4 s (2-6) | did not finish | 1 s (1-1) | 1 s (1-1) |"


def test_a_test_that_was_not_run_counts_as_failed():
    report = '<testsuites><testsuite tests="9" failures="1" errors="1" skipped="2"/></testsuites>'
    assert counted(report) == (9, 4)


@pytest.mark.parametrize(
    ("status", "stderr", "short"),
    [
        (-9, "", True),
        (1, "java.lang.OutOfMemoryError: Java heap space", True),
        (1, "_duckdb.OutOfMemoryException: Out of Memory Error", True),
        (1, "_duckdb.OutOfRangeException: Out of Range Error: Overflow in multiplication", False),
        (1, "AssertionError", False),
    ],
)
def test_only_a_lack_of_memory_counts_as_not_finished_and_other_failures_are_errors(
    status, stderr, short
):
    assert is_short_of_memory(status, stderr) is short
