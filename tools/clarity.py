"""Prints figures of the code's vocabulary and layout: `python tools/clarity.py`. `tests/test_vocabulary.py` limits them.

A binding is a name that is assigned, iterated over or a parameter. It is vague if it is a pronoun or a participle that
names no kind of value.
"""

import ast
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = ROOT / "reconciler"

VAGUE: Final = frozenset(
    [
        "one",
        "found",
        "made",
        "told",
        "wanted",
        "there",
        "kept",
        "left",
        "said",
        "asked",
        "given",
        "taken",
        "shown",
        "whole",
        "seen",
        "here",
        "out",
        "other",
        "others",
        "rest",
        "mine",
        "it",
        "known",
        "heard",
        "meant",
        "chosen",
        "held",
        "listed",
        "ours",
        "theirs",
    ]
)
"""Names that do not describe their values."""

NOT_A_MODULE: Final = frozenset(
    [
        "asking",
        "consulting",
        "dead",
        "doubts",
        "fates",
        "lookout",
        "reign",
        "rivals",
        "shelf",
        "sheet",
        "standing",
        "surmised",
        "telling",
        "told",
        "twins",
        "vigil",
        "world",
    ]
)
"""Participles and metaphors that must not be module names."""


NAMED: Final = (
    ast.Name,
    ast.arg,
    ast.Attribute,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
)
"""Nodes that may define or assign a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClarityFigures:
    """Counts of names, classes and modules.

    Attributes:
        lines: Lines of Python in the package.
        bindings: All bindings.
        vague: Vague names and how often each is bound.
        defined: Names of functions, classes, parameters, variables and attributes, and how often each is defined or assigned.
        classes: Class names, without leading underscores, and the files that define each.
        folders: Folders and their numbers of modules, without `__init__`.
    """

    lines: int
    bindings: int
    vague: Counter[str]
    defined: Counter[str]
    classes: dict[str, list[str]]
    folders: Counter[str]

    @property
    def vague_percent(self) -> float:
        """Share of vague bindings, in percent."""
        return 100 * self.vague.total() / self.bindings

    @property
    def duplicate_classes(self) -> dict[str, list[str]]:
        """Class names that two or more files define."""
        return {name: files for name, files in self.classes.items() if len(set(files)) > 1}


def count(package: Path = PACKAGE) -> ClarityFigures:
    """Count the names, classes and modules below a folder."""
    lines = 0
    names: Counter[str] = Counter()
    defined: Counter[str] = Counter()
    classes: defaultdict[str, list[str]] = defaultdict(list)
    folders: Counter[str] = Counter()
    for path in sorted(package.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        lines += source.count("\n")
        if path.name != "__init__.py":
            folders[str(path.parent.relative_to(package.parent))] += 1
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, NAMED):
                continue
            name = defined_name(node)
            defined[name] += 1
            if isinstance(node, ast.Name | ast.arg) and name not in {"self", "cls", "_"}:
                names[name.lstrip("_")] += 1
            if isinstance(node, ast.ClassDef):
                classes[name.lstrip("_")].append(str(path.relative_to(package.parent)))
    del defined[""], names[""]
    return ClarityFigures(
        lines=lines,
        bindings=names.total(),
        vague=Counter({name: names[name] for name in VAGUE if names[name]}),
        defined=defined,
        classes=dict(classes),
        folders=folders,
    )


def defined_name(node: ast.AST) -> str:
    """The function, class, parameter, variable or attribute that a node defines or assigns; empty for other nodes."""
    match node:
        case (
            ast.Name(id=name, ctx=ast.Store())
            | ast.arg(arg=name)
            | ast.Attribute(attr=name, ctx=ast.Store())
            | ast.FunctionDef(name=name)
            | ast.AsyncFunctionDef(name=name)
            | ast.ClassDef(name=name)
        ):
            return name
        case _:
            return ""


def main() -> None:
    """Print the figures."""
    figures = count()
    print(f"lines              {figures.lines}")
    print(f"bindings           {figures.bindings}")
    print(f"vague bindings     {figures.vague.total()} ({figures.vague_percent:.2f} %)")
    print(f"duplicate classes  {len(figures.duplicate_classes)}")
    for folder, number in figures.folders.most_common(8):
        print(f"{number:18} modules in {folder}")


if __name__ == "__main__":
    main()
