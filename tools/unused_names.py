"""Lists unused public functions, classes, methods and properties of ``reconciler``.

Usage: ``python -m tools.unused_names``; exit code 1 if there is one. A name counts as used wherever it is written as a name, an
attribute, an import, a keyword, or a word in a short string of the package, or in a file of examples, charts or tools; so
a frequent word is never reported. Functions and classes of modules must also be imported, or used by their own module. Uses in tests do not count. Names of the library's public API count as used.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
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


LOADED_BY_NAME: Final = {
    ("reconciler.__main__", "client_quotas"): "the entry point in pyproject.toml",
    ("reconciler.cli.client_quotas", "main"): "importlib, by the entry point",
    (
        "reconciler.client.auth.sasl_settings",
        "from_settings",
    ): "importlib, only for listeners with SASL",
    (
        "reconciler.wire.messages.alter_client_quotas",
        "encode_request",
    ): "the reference of the faster parts, for tests",
    ("reconciler.sandbox", "__getattr__"): "Python, for names that are imported on first use",
}
"""Functions that no module imports by a statement."""


def unimported(trees: Mapping[str, ast.Module]) -> list[str]:
    """Return functions and classes of modules that neither their own module nor an import of another one uses.

    A package that only passes a name on does not use it.
    """
    modules = {_module_name(where): tree for where, tree in trees.items()}
    passed_on = {
        (_module_name(where), alias.name): (str(node.module), alias.name)
        for where, tree in trees.items()
        if where.endswith("__init__.py")
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    imported: set[tuple[str, str]] = set()
    for where, tree in trees.items():
        if not where.endswith("__init__.py"):
            for name in _imports(tree, modules):
                while name in passed_on:
                    name = passed_on[name]  # noqa: PLW2901 - the name that the package passes on
                imported.add(name)
    public = set(re.findall(r"^\w+ (\w+)", LIBRARY.read_text(encoding="utf-8"), re.MULTILINE))
    return [
        f"{where}:{node.lineno}: {node.name}"
        for where, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and all("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
        and (name := (_module_name(where), node.name)) not in imported
        and name not in LOADED_BY_NAME
        and node.name not in public
        and node.name not in _words(inner for inner in tree.body if inner is not node)
    ]


def _module_name(where: str) -> str:
    return where.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imports(tree: ast.Module, modules: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield module and name of each imported name, and of each attribute of an imported module."""
    aliases: set[tuple[str, str]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (module := f"{node.module}.{alias.name}") in modules:
                    aliases.add((alias.asname or alias.name, module))
                yield str(node.module), alias.name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield from ((module, node.attr) for name, module in aliases if name == node.value.id)


def _words(nodes: Iterable[ast.stmt]) -> set[str]:
    """Return the names in code, and the words of annotations that are strings."""
    words: set[str] = set()
    for node in nodes:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name):
                words.add(inner.id)
            elif isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                words.update(re.findall(r"\w+", inner.value if len(inner.value) < 200 else ""))
    return words


def unused() -> list[str]:
    """Return ``path:line: name`` of each unused name, sorted by path."""
    trees = {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }
    counts = uses(trees.values())
    unused_words = {
        f"{where}:{line}: {name}"
        for where, tree in trees.items()
        for name, line in definitions(tree)
        if not counts[name]
    }
    return sorted(unused_words | set(unimported(trees)))


if __name__ == "__main__":
    names = unused()
    print("\n".join(names) or "no unused names")
    sys.exit(bool(names))
