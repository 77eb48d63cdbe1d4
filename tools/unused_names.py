"""Lists unused public functions, classes, methods and properties of ``reconciler``.

Usage: ``python -m tools.unused_names``; exit code 1 if there is one. A name counts as used wherever it is written as a name, an
attribute, an import, a keyword, or a word in a short string of the package, or in a file of examples, charts or tools; so
a frequent word is never reported. Uses in tests do not count. Names of the library's public API count as used.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "reconciler"
OWN: Final = frozenset({"property", "classmethod", "staticmethod", "functools.cached_property"})
"""Decorators that do not register a function elsewhere."""
LIBRARY: Final = ROOT / "tests" / "golden" / "library_api.txt"


def definitions(tree: ast.Module) -> list[tuple[str, int]]:
    """Return public functions, classes, methods and properties of a module, with their lines.

    Left out are functions with other decorators, and methods of classes with a base class of a library.
    """
    foreign = {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and not str(getattr(node, "module", "")).startswith("reconciler")
        for alias in node.names
    }
    called_by_others = {
        id(method)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).partition(".")[0] in foreign for base in node.bases)
        for method in node.body
    }
    rows: list[tuple[str, int]] = []
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and not node.name.startswith("_")
            and id(node) not in called_by_others
        ):
            decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
            if all(name in OWN or "dataclass" in name for name in decorators):
                rows.append((node.name, node.lineno))
    return rows


def uses(trees: Iterable[ast.Module]) -> Counter[str]:
    """Count the occurrences of each word outside of definitions, in modules of the package and in other files."""
    words: Counter[str] = Counter()
    for tree in trees:
        for node in ast.walk(tree):
            match node:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    words[name] += 1
                case ast.keyword(arg=str(name)):
                    words[name] += 1
                case ast.alias(name=name):
                    words[name.rpartition(".")[2]] += 1
                case ast.Constant(value=str(text)) if len(text) < 80:
                    words.update(re.findall(r"\w+", text))
                case _:
                    pass
    for folder in ("examples", "charts", "tools"):
        for path in (ROOT / folder).rglob("*.*"):
            if path != Path(__file__) and path.suffix in {".py", ".yaml", ".yml", ".tpl"}:
                words.update(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    words.update(re.findall(r"\w+", LIBRARY.read_text(encoding="utf-8")))
    return words


def unused() -> list[str]:
    """Return ``path:line: name`` of each unused name, sorted by path."""
    trees = {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }
    counts = uses(trees.values())
    return [
        f"{where}:{line}: {name}"
        for where, tree in trees.items()
        for name, line in definitions(tree)
        if not counts[name]
    ]


if __name__ == "__main__":
    names = unused()
    print("\n".join(names) or "no unused names")
    sys.exit(bool(names))
