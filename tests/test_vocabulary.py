"""Names follow the rules of ARCHITECTURE.md: no vague names, unique class names, folders of a readable size."""

import ast
import functools
import re
from collections import Counter
from pathlib import Path

from tools import clarity

GLOSSARY = (clarity.ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")

VAGUE_IN_TESTS = 1
"""A ratchet: the number of vague bindings in tests (the output of a command has the name that pytest gives it)."""

MODULES_IN_A_ROOM = 15
"""Maximum number of modules in a folder, without ``__init__``."""

BANNED_LEFT = 4
"""A ratchet: remaining banned identifiers: ``WrongCluster.found`` of the library, three fields of JSON documents."""

PARTICIPLES_LEFT = 212
"""A ratchet: functions that are named by a participle alone, where a verb or a noun says what they do or return."""

PARTICIPLE_DEFINITION = re.compile(r"\bdef _?[a-z]+[^e]ed\(")


@functools.cache
def figures() -> clarity.ClarityFigures:
    """The names and folders of the package, counted once."""
    return clarity.count()


def test_no_name_of_the_package_is_vague() -> None:
    assert not figures().vague


def test_the_number_of_vague_names_in_tests_only_decreases() -> None:
    vague = clarity.count(clarity.ROOT / "tests").vague
    assert vague.total() <= VAGUE_IN_TESTS, vague.most_common()


def test_class_names_are_unique() -> None:
    assert not figures().duplicate_classes


MAKERS_WORDS = re.compile(
    r"\b([Tt]akeovers?|over drift|withheld|held(?! back)|[Vv]isible|[Oo]rphan\w*|frozen|known clients?|level [0-9])\b(?! \|)"
)
"""Words of the product that readers of its output need not know. Reasons and fields of documents keep theirs."""

READ_BY_PEOPLE = "cli app reconcile render render/use kube/status kube/records kube/admission"


def test_no_sentence_of_the_output_has_a_word_that_only_makers_know() -> None:
    for folder in READ_BY_PEOPLE.split():
        for path in (clarity.PACKAGE / folder).rglob("*.py"):
            nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
            silent = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
            texts = [
                node.value
                for node in nodes
                if isinstance(node, ast.Constant) and id(node) not in silent
                if isinstance(node.value, str) and " " in node.value
            ]
            assert [text for text in texts if MAKERS_WORDS.search(text)] == [], path


def test_no_module_is_named_by_a_participle_or_a_metaphor() -> None:
    modules = {path.stem for path in clarity.PACKAGE.rglob("*.py")}
    assert not modules & clarity.NOT_A_MODULE


def test_the_number_of_functions_named_by_a_participle_only_decreases() -> None:
    names = Counter(
        f"{path.relative_to(clarity.PACKAGE)}: {node.name}"
        for path in clarity.PACKAGE.rglob("*.py")
        if PARTICIPLE_DEFINITION.search(text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and PARTICIPLE_DEFINITION.fullmatch(f"def {node.name}(")
        and not any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
        and not (node.returns is not None and ast.unparse(node.returns) == "bool")
    )
    assert names.total() <= PARTICIPLES_LEFT, sorted(names)


def test_no_folder_contains_too_many_modules() -> None:
    large = {
        folder: number for folder, number in figures().folders.items() if number > MODULES_IN_A_ROOM
    }
    assert not large


def test_every_package_is_in_the_picture_of_the_architecture() -> None:
    packages = {path.parent.name for path in clarity.PACKAGE.glob("*/__init__.py")}
    missing = {name for name in packages if not re.search(rf"\b{name}\b", GLOSSARY)}
    assert not missing


def test_every_module_named_in_the_architecture_exists() -> None:
    named = set(re.findall(r"`([\w/]+\.py)`", GLOSSARY))
    assert len(named) > 60
    assert not {name for name in named if architecture_path(name) is None}


def architecture_path(name: str) -> Path | None:
    """The file for a path in ARCHITECTURE.md: below the package, or below the root."""
    candidates = (clarity.PACKAGE / name, clarity.ROOT / name)
    return next((path for path in candidates if path.is_file()), None)


def test_every_function_of_the_walks_is_in_the_module_before_it() -> None:
    walks = GLOSSARY.split("## Three walks")[1].split("## Where to start")[0]
    wrong: list[str] = []
    for module, names in re.findall(r"`([\w/]+\.py)`((?:[ ,→]+`[\w.]+`)*)", walks):
        path = architecture_path(module)
        tree = ast.parse(path.read_text(encoding="utf-8") if path else "")
        defined = {clarity.defined_name(node) for node in ast.walk(tree)}
        wrong += [
            f"{module}: {name}"
            for name in re.findall(r"`([\w.]+)`", names)
            if not defined.issuperset(name.split("."))
        ]
    assert not wrong


def test_every_name_under_where_to_start_and_in_the_recipes_exists() -> None:
    recipes = (clarity.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    text = (
        GLOSSARY.split("## Where to start")[1].split("## Glossary")[0]
        + recipes.split("## Rules that tests hold")[0]
    )
    names = set(re.findall(r"`(_\w+|[A-Z]\w*[a-z]\w*|[a-z]+_\w+)`", text))
    assert len(names) > 30
    files = [
        *clarity.PACKAGE.rglob("*.py"),
        *(clarity.ROOT / "tools").glob("*.py"),
        *(clarity.ROOT / "charts").rglob("*.yaml"),
    ]
    defined = {name for path in files for name in re.findall(r"\w+", path.read_text("utf-8"))}
    assert names - defined == set()


def banned_by_the_glossary() -> frozenset[str]:
    """Identifiers in backticks in the last column of the table in ARCHITECTURE.md."""
    rows = [line.split("|") for line in GLOSSARY.split("## Glossary")[1].splitlines()]
    return frozenset(
        identifier
        for cells in rows
        if len(cells) == 6
        for identifier in re.findall(r"`([a-z_]+)`", cells[4])
    )


def test_the_number_of_banned_identifiers_only_decreases() -> None:
    banned = banned_by_the_glossary()
    assert len(banned) > 40
    used = Counter({name: figures().defined[name] for name in banned})
    assert used.total() <= BANNED_LEFT, used.most_common()
