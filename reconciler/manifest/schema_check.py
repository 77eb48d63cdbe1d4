"""Whether a document is in order, by its schema and its static rules; ``explain`` words the reasons.

A small interpreter of the JSON Schema words that our generator writes, so that a project file that is in order
never loads ``jsonschema``. A property test holds both to one verdict; a word that is unknown here is an error.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

from reconciler.manifest import schema
from reconciler.manifest.rules.client_quota import QUOTA_RULES, Json, StaticRule
from reconciler.manifest.rules.cluster import CLUSTER_RULES
from reconciler.manifest.schema_names import SERVER_FIELDS
from reconciler.manifest.syntax.nodes import MappingNode, Node, Path, walk
from reconciler.manifest.syntax.scalars import is_text

_Word: TypeAlias = Callable[[Any, Json, Mapping[str, Any]], bool]

RULES_BY_KIND: Final[Mapping[str, tuple[StaticRule, ...]]] = {
    kind: tuple(rule for rule in (*QUOTA_RULES, *CLUSTER_RULES) if rule.kind == kind)
    for kind in schema.FILES
}


@cache
def _schema(kind: str) -> schema.Schema:
    return schema.load(kind)


def accepted(kind: str, document: Json) -> bool:
    """Whether a document of this kind may be used."""
    return fits(_schema(kind), document) and not any(
        True for rule in RULES_BY_KIND[kind] for _ in broken(rule, document)
    )


def matches(pattern: str, text: str) -> bool:
    """Whether a text matches a pattern of a schema, whose ``$`` means the end as in Go and in ECMAScript.

    Python's also stands before a last line feed, with which the API server refuses a text.
    """
    return _compiled(pattern).search(text) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern[:-1] + r"\Z" if pattern.endswith("$") else pattern)


def fits(node: Mapping[str, Any], value: Json) -> bool:
    """Whether a value fits a schema."""
    return all(_WORDS[word](expected, value, node) for word, expected in node.items())


def broken(rule: StaticRule, document: Json) -> Iterator[tuple[Path, str]]:
    """Where a document breaks a rule, and the sentence about it."""
    if rule.broken is None:
        return
    for at, value in matching(document, rule.at):
        message = rule.broken(value)
        if message is not None:
            yield at, message


def matching(value: Json, at: Sequence[str], path: Path = ()) -> Iterator[tuple[Path, Json]]:
    """Every value that a path with ``*`` for list items leads to."""
    if not at:
        yield path, value
    elif at[0] == "*":
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from matching(item, at[1:], (*path, index))
    elif isinstance(value, dict) and at[0] in value:
        yield from matching(value[at[0]], at[1:], (*path, at[0]))


def ambiguous_keys(root: Node) -> Iterator[Path]:
    """Keys of free maps (labels, properties) that some reader takes for something else than text."""
    for at, node in walk(root):
        if isinstance(node, MappingNode) and at[:1] != ("status",) and at[1:2] not in _IGNORED:
            for key, entry in node.entries.items():
                if entry.key.plain and not is_text(key):
                    yield (*at, key)


_IGNORED: Final = frozenset((field,) for field in SERVER_FIELDS)


_TYPES: Final[Mapping[str, Callable[[Json], bool]]] = {
    "object": lambda value: type(value) is dict,
    "array": lambda value: type(value) is list,
    "string": lambda value: type(value) is str,
    "boolean": lambda value: type(value) is bool,
    "integer": lambda value: type(value) is int,
    "number": lambda value: type(value) in {int, float},
}


def _type(expected: str | list[str], value: Json, _: Mapping[str, Any]) -> bool:
    return any(
        _TYPES[type_name](value)
        for type_name in ([expected] if isinstance(expected, str) else expected)
    )


def _properties(subschemas: Mapping[str, Any], value: Json, _: Mapping[str, Any]) -> bool:
    return type(value) is not dict or all(
        fits(subschemas[name], property_value)
        for name, property_value in value.items()
        if name in subschemas
    )


def _additional(subschema: bool | Mapping[str, Any], value: Json, node: Mapping[str, Any]) -> bool:  # noqa: FBT001 - JSON Schema's own shape
    if type(value) is not dict:
        return True
    extra_values = [
        property_value
        for name, property_value in value.items()
        if name not in node.get("properties", {})
    ]
    return (
        all(fits(subschema, property_value) for property_value in extra_values)
        if isinstance(subschema, dict)
        else not extra_values
    )


def _length(
    kind: type[str | list[Json] | dict[str, Json]], holds: Callable[[int, int], bool]
) -> _Word:
    return lambda expected, value, _: type(value) is not kind or holds(len(value), expected)


def _number(holds: Callable[[float, float], bool]) -> _Word:
    return lambda expected, value, _: type(value) not in {int, float} or holds(value, expected)


def _same(first: Json, second: Json) -> bool:
    return type(first) is type(second) and bool(first == second)


_WORDS: Final[Mapping[str, _Word]] = {
    "type": _type,
    "properties": _properties,
    "additionalProperties": _additional,
    "required": lambda expected, value, _: (
        type(value) is not dict or all(n in value for n in expected)
    ),
    "items": lambda expected, value, _: (
        type(value) is not list or all(fits(expected, v) for v in value)
    ),
    "const": lambda expected, value, _: _same(expected, value),
    "enum": lambda expected, value, _: any(_same(allowed, value) for allowed in expected),
    "pattern": lambda expected, value, _: type(value) is not str or matches(expected, value),
    "minLength": _length(str, lambda have, bound: have >= bound),
    "maxLength": _length(str, lambda have, bound: have <= bound),
    "minItems": _length(list, lambda have, bound: have >= bound),
    "maxItems": _length(list, lambda have, bound: have <= bound),
    "minProperties": _length(dict, lambda have, bound: have >= bound),
    "maxProperties": _length(dict, lambda have, bound: have <= bound),
    "minimum": _number(lambda have, bound: have >= bound),
    "maximum": _number(lambda have, bound: have <= bound),
    "exclusiveMinimum": _number(lambda have, bound: have > bound),
    "uniqueItems": lambda _, value, __: (
        type(value) is not list
        or not any(_same(a, b) for i, a in enumerate(value) for b in value[:i])
    ),
    **dict.fromkeys(("$schema", "$id", "title", "description"), lambda *_: True),
}
"""What each word asks of a value."""
