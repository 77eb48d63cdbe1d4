"""Hints with an install command are defined in one place, name existing extras, and occur nowhere else."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler import RELEASED, __version__
from reconciler.base import installation as extras
from reconciler.base.installation import PROJECT, WHEEL, install_commands, install_hint

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "reconciler").rglob("*.py"))
PAGES = sorted(
    [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.*")]
)
PROJECT_FILE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = frozenset(PROJECT_FILE["project"]["optional-dependencies"])
COMMAND = re.compile(r"pip install '([^']*)\[([a-z]+)\]'")


def calls(path: Path, name: str) -> Iterator[ast.Call]:
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if f"{name}(" in text else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node


def first_arguments(name: str) -> set[str]:
    """The constant first arguments of all calls of a function in the source."""
    return {
        call.args[0].value
        for path in SOURCES
        for call in calls(path, name)
        if isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str)
    }


def test_no_source_text_spells_an_install_command_itself() -> None:
    spelled = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        if path.name != "installation.py" and "pip install" in path.read_text(encoding="utf-8")
    ]
    assert spelled == []


def test_every_extra_has_a_hint_and_every_hint_names_an_extra() -> None:
    assert first_arguments("install_hint") | first_arguments("needs") == EXTRAS
    assert frozenset(extras.MODULES) == first_arguments("needs")


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_a_hint_consists_of_its_commands(extra: str) -> None:
    for released in (True, False):
        commands = install_commands(extra, released=released)
        hint = install_hint(extra, released=released)
        assert [f"pip install '{source}[{name}]'" for source, name in COMMAND.findall(hint)] == [
            *commands
        ]


def test_only_a_released_version_is_named_by_its_project() -> None:
    assert install_commands("watch", released=True) == (f"pip install '{PROJECT}[watch]'",)
    assert install_commands("watch", released=False) == (
        "pip install '.[watch]'",
        f"pip install './{WHEEL}[watch]'",
    )
    assert f"-{__version__}-" in WHEEL


def test_documents_and_examples_name_no_release_before_the_first_one() -> None:
    named = [
        (path.name, source, extra)
        for path in PAGES
        for source, extra in COMMAND.findall(path.read_text(encoding="utf-8"))
        if extra not in EXTRAS or (source == PROJECT) != RELEASED
    ]
    assert named == []
