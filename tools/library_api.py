"""The public names of ``reconciler.kafka`` with their signatures, read from the source by griffe, as one line each.

python -m tools.library_api --write    after an intended change of the API; review it by the difference
"""

import argparse
import ast
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import griffe

ROOT = Path(__file__).parents[1]
STRUCT = "msgspec.Struct"
QUOTES = "\"'"
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
    is_struct = any(str(base) == STRUCT for base in item.bases)
    bases = ", ".join(str(base) for base in item.bases if str(base) != STRUCT)
    yield f"class {name}({bases})" if bases else f"class {name}"
    if is_struct:
        yield f"def {name}.__init__{_fields(item)} -> None"
    members = {**item.inherited_members, **item.members}
    for member in sorted(members):
        if member == "__init__" or not member.startswith("_"):
            yield _line(f"{name}.{member}", _source(members[member]))


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


def _fields(struct: griffe.Class) -> str:
    """Return the parameters of a Struct, which griffe does not derive from the fields as it does for a dataclass."""
    (definition,) = ast.parse(textwrap.dedent(struct.source)).body
    if not isinstance(definition, ast.ClassDef):
        raise TypeError(f"{struct.name} is no class")
    keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in definition.keywords}
    texts = ["*"] if keywords.get("kw_only") == "True" else []
    for field in definition.body:
        if not isinstance(field, ast.AnnAssign) or ast.unparse(field.annotation) == "ClassVar":
            continue
        text = f"{ast.unparse(field.target)}: {ast.unparse(field.annotation).strip(QUOTES)}"
        match field.value:
            case None:
                texts.append(text)
            case ast.Call(keywords=[ast.keyword(arg="default_factory", value=factory)]):
                texts.append(f"{text} = {ast.unparse(factory)}()")
            case value:
                texts.append(f"{text} = {ast.unparse(value)}")
    return f"({', '.join(texts)})"


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
