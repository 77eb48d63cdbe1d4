"""The house rules that no linter knows: files that begin by saying what may live in them, their size, and the map of them all."""

import ast
from pathlib import Path

from tests import file_map

ROOT = Path(__file__).parents[1]
MODULES = sorted(path for path in (ROOT / "reconciler").rglob("*.py"))
LONGEST = 400
ONE_PIECE = {"reconciler/errors.py": 450}  # one tree, and its picture at the top
SKIPPED_WORDS = ("Manager", "Helper", "Util", "Base")


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_every_module_begins_by_saying_what_may_live_in_it() -> None:
    assert [relative(path) for path in MODULES if not file_map.first_line(path)] == []


def test_no_module_is_longer_than_a_reader_can_hold_in_the_head() -> None:
    long = {
        relative(path): text.count("\n")
        for path in MODULES
        if (text := path.read_text()).count("\n") > ONE_PIECE.get(relative(path), LONGEST)
    }
    assert long == {}


def test_no_class_or_module_has_a_name_that_says_nothing() -> None:
    found = [
        f"{relative(path)}: {node.name}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        and any(node.name.endswith(word) for word in SKIPPED_WORDS)
    ]
    assert found == []
    assert [
        relative(path)
        for path in MODULES
        if path.stem in ("utils", "helpers", "common", "misc", "base")
    ] == []


def test_the_design_maps_every_module_as_it_begins() -> None:
    design = file_map.DESIGN.read_text(encoding="utf-8")
    assert file_map.replaced(design) == design, "python -m tests.file_map --write"


def test_every_test_module_of_the_package_stands_where_its_subject_stands() -> None:
    packages = {path.parent.name for path in MODULES if path.parent.parent == ROOT / "reconciler"}
    assert packages <= {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
