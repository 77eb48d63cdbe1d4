"""Names follow the rules of ARCHITECTURE.md: no vague names, no class name twice, rooms of a readable size."""

import re
from pathlib import Path

from tools import clarity

FIGURES = clarity.count()
GLOSSARY = (clarity.ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")

VAGUE_BINDINGS = 60
"""A ratchet: how many vague bindings are left. Lower it when a change removes some; never raise it."""

MODULES_IN_A_ROOM = 17
"""A ratchet for the largest folder; the aim is 15."""


def test_vague_names_only_become_fewer() -> None:
    assert FIGURES.vague.total() <= VAGUE_BINDINGS, FIGURES.vague.most_common()


def test_no_class_name_is_used_twice() -> None:
    assert not FIGURES.duplicate_classes


def test_no_module_is_named_by_a_participle_or_a_metaphor() -> None:
    modules = {path.stem for path in clarity.PACKAGE.rglob("*.py")}
    assert not modules & clarity.NOT_A_MODULE


def test_no_room_holds_more_modules_than_a_reader_can_take_in() -> None:
    large = {
        folder: number for folder, number in FIGURES.folders.items() if number > MODULES_IN_A_ROOM
    }
    assert not large


def test_every_package_is_in_the_picture_of_the_architecture() -> None:
    packages = {path.parent.name for path in clarity.PACKAGE.glob("*/__init__.py")}
    missing = {name for name in packages if not re.search(rf"\b{name}\b", GLOSSARY)}
    assert not missing


def test_every_module_that_the_architecture_names_exists() -> None:
    named = set(re.findall(r"`(reconciler/[\w/]+\.py)`", GLOSSARY))
    assert named
    assert not {name for name in named if not Path(clarity.ROOT / name).is_file()}
