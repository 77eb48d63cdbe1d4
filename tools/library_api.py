"""The public names of ``reconciler.kafka`` with their signatures, read from the source by griffe, as one line each.

python -m tools.library_api --write    after an intended change of the API; review it by the difference
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import griffe

from reconciler import kafka

ROOT = Path(__file__).parents[1]
SNAPSHOT = ROOT / "tests" / "golden" / "library_api.txt"


def snapshot() -> str:
    """Return one line for each name, member and signature, sorted."""
    library = griffe.load("reconciler.kafka", search_paths=[ROOT], resolve_aliases=True)
    names = sorted(str(name) for name in library.exports or ())
    return "\n".join(line for name in names for line in _lines(name, _source(library[name]))) + "\n"


def _source(item: griffe.Object | griffe.Alias) -> griffe.Object:
    return item.final_target if isinstance(item, griffe.Alias) else item


def _lines(name: str, item: griffe.Object) -> Iterator[str]:
    if not isinstance(item, griffe.Class):
        yield _line(name, item)
        return
    bases = ", ".join(base for base in map(str, item.bases) if base != "Struct")
    yield f"class {name}({bases})" if bases else f"class {name}"
    if "Struct" in map(str, item.bases):
        yield f"def {name}.__init__({_fields(name, item)}) -> None"
    members = {**item.inherited_members, **item.members}
    for member in sorted(members):
        if member == "__init__" or not member.startswith("_"):
            yield _line(f"{name}.{member}", _source(members[member]))


def _fields(name: str, item: griffe.Class) -> str:
    """Return the parameters of a Struct, which has no constructor in its source."""
    positional: tuple[str, ...] = getattr(kafka, name).__match_args__
    names = getattr(kafka, name).__struct_fields__
    texts: list[str] = []
    for field in names:
        if field not in positional and "*" not in texts:
            texts.append("*")
        attribute = item.members[field]
        assert isinstance(attribute, griffe.Attribute)  # noqa: S101
        default = "" if attribute.value is None else f" = {attribute.value}"
        texts.append(f"{field}: {attribute.annotation}{default}")
    return ", ".join(texts)


def _line(name: str, item: griffe.Object) -> str:
    match item:
        case griffe.Function():
            asynchronous = "async " if "async" in item.labels else ""
            return f"{asynchronous}def {name}{_parameters(item)} -> {item.returns}"
        case griffe.Attribute():
            kind = "property" if "property" in item.labels else "attribute"
            annotation = item.annotation if item.annotation is not None else item.value
            return f"{kind} {name}: {annotation}"
        case _:
            return f"{item.kind.value} {name}"


def _parameters(function: griffe.Function) -> str:
    texts: list[str] = []
    for parameter in function.parameters:
        if parameter.name in {"self", "cls"}:
            continue
        if parameter.kind is griffe.ParameterKind.keyword_only and "*" not in texts:
            texts.append("*")
        annotation = "" if parameter.annotation is None else f": {parameter.annotation}"
        default = "" if parameter.default is None else f" = {parameter.default}"
        texts.append(f"{parameter.name}{annotation}{default}")
    return f"({', '.join(texts)})"


def main() -> int:
    """Write the snapshot with ``--write``, else compare with it; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        SNAPSHOT.write_text(snapshot(), encoding="utf-8")
        return 0
    if SNAPSHOT.read_text(encoding="utf-8") == snapshot():
        return 0
    print(f"{SNAPSHOT} is not the API of the source; run python -m tools.library_api --write")
    return 1


if __name__ == "__main__":
    sys.exit(main())
