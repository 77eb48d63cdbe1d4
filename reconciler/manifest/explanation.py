"""Explains why a document is invalid: every violation of its schema and its static rules with line and column.

`jsonschema-rs` decides about the schema; `jsonschema`, which takes as long to load as a command to read its files, is loaded for
the words where something is wrong. The static rules check only the parts that the schema accepts.
QuotaCluster and QuotaProject are always checked here. A ClientQuota is checked in `document`, which is many times
faster; only if declined it comes here for the messages. A property test requires that both agree.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

from reconciler.errors import Problem, QuotaValueError
from reconciler.manifest import quantity, schema_names
from reconciler.manifest.rules.client_quota import QUOTA_RULES, Json, StaticRule
from reconciler.manifest.rules.cluster import CLUSTER_RULES
from reconciler.manifest.schema import is_accepted, load_schema
from reconciler.manifest.syntax.nodes import (
    MappingNode,
    Node,
    Path,
    ScalarNode,
    find,
    key_place,
    place,
    to_json,
    walk,
)
from reconciler.manifest.syntax.scalars import AmbiguousScalar, is_text, meaning
from reconciler.quota.keys import LONG_MAX

# jsonschema's classes; its stubs allow values that its validators never return.
_Validator: TypeAlias = Any
_Error: TypeAlias = Any

_MOST_SHOWN: Final = 80
"""Maximum length of an invalid value in a message."""

_IGNORED: Final = frozenset((field,) for field in schema_names.SERVER_FIELDS)


@cache
def _validator(kind: str) -> _Validator:
    from jsonschema import Draft202012Validator, ValidationError, validators  # noqa: PLC0415

    def match(_: _Validator, pattern: str, value: Json, __: object) -> Iterator[_Error]:
        if isinstance(value, str) and _compile(pattern).search(value) is None:
            yield ValidationError(f"{value!r} does not match {pattern!r}")

    # A whole float, such as 5.0, is not an integer here: the reader of custom resources refuses it too.
    types = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: type(value) is int
    )
    validator_class = validators.extend(  # type: ignore[no-untyped-call] # their stub
        Draft202012Validator, {"pattern": match}, type_checker=types
    )
    return validator_class(load_schema(kind))


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    """Compile a pattern. ``$`` matches only the end, as in Go and ECMAScript; in Python also before a final line feed."""
    return re.compile(pattern[:-1] + r"\Z" if pattern.endswith("$") else pattern)


def problems(kind: str, root: Node, path: str) -> list[Problem]:
    """Return all problems of a document of a known kind, sorted by place."""
    document = to_json(root)
    located: dict[tuple[int, int, str], None] = {}
    rejected_paths: list[Path] = []
    errors = () if is_accepted(kind, document) else _validator(kind).iter_errors(document)
    for error in errors:
        at = tuple(error.absolute_path)
        rejected_paths.append(at)
        for location, message in _sentences(error, root, at):
            located[(*location, message)] = None
    for at, message in _broken_rules(kind, document, rejected_paths):
        located[(*place(root, at), message)] = None
    for at in _ambiguous_keys(root):
        located[(*key_place(root, at), f"{path_text(at)}: {quote_it(str(at[-1]))}")] = None
    return [Problem(path, line, column, message) for line, column, message in sorted(located)]


def _broken_rules(
    kind: str, document: Json, rejected_paths: Sequence[Path]
) -> Iterator[tuple[Path, str]]:
    """Yield violations of static rules, only for parts that the schema accepts."""
    for rule in (*QUOTA_RULES, *CLUSTER_RULES):
        if rule.kind == kind:
            for at, message in broken(rule, document, rejected_paths):
                yield at, f"{path_text(at)}: {message}"


def broken(
    rule: StaticRule, document: Json, rejected_paths: Sequence[Path] = ()
) -> Iterator[tuple[Path, str]]:
    """Yield where a document violates a rule, and the message; skips paths that the schema rejected."""
    if rule.broken is None:
        return
    for at, value in _matching(document, rule.at):
        if any(path[: len(at)] == at for path in rejected_paths):
            continue
        message = rule.broken(value)
        if message is not None:
            yield at, message


def _matching(value: Json, at: Sequence[str], path: Path = ()) -> Iterator[tuple[Path, Json]]:
    if not at:
        yield path, value
    elif at[0] == "*":
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _matching(item, at[1:], (*path, index))
    elif isinstance(value, dict) and at[0] in value:
        yield from _matching(value[at[0]], at[1:], (*path, at[0]))


def _ambiguous_keys(root: Node) -> Iterator[Path]:
    """Yield keys of free maps (labels, properties) that some YAML reader does not read as text."""
    for at, node in walk(root):
        if isinstance(node, MappingNode) and at[:1] != ("status",) and at[1:2] not in _IGNORED:
            for key, entry in node.entries.items():
                if entry.key.plain and not is_text(key):
                    yield (*at, key)


# ---- messages -------------------------------------------------------------------------------


def path_text(path: Path) -> str:
    """Format a path: ``spec.tenants[0].namespaces``."""
    return (
        "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(
            "."
        )
        or "document"
    )


def quote_it(text: str) -> str:
    """Return the message about a plain scalar that YAML readers read differently."""
    return (
        f"plain {text!r} is not a string in every YAML parser; put it in quotes"
        if text
        else ("an empty value is null, not the default; write a quoted name or {default: true}")
    )


_ENTITY: Final = ("spec", "entity")
_NULL: Final = (
    "the value is missing; write it on the same line, or below with more blanks before it"
)
_NULL_SLOT: Final = "null is not the default; write {name: ...} or {default: true}"

_Sentences = Iterator[tuple[tuple[int, int], str]]


def _sentences(error: _Error, root: Node, at: Path) -> _Sentences:
    special = _WORDS.get(str(error.validator))
    if special is not None:
        yield from special(error, root, at)
        return
    value = error.instance
    fixed = _SENTENCES.get(str(error.validator))
    if fixed is None:
        yield place(root, at), f"{path_text(at)}: {error.message[:200]}"
        return
    value_text = repr(value.text if isinstance(value, AmbiguousScalar) else value)
    value_text = value_text if len(value_text) <= _MOST_SHOWN else value_text[:_MOST_SHOWN] + "…"
    yield (
        place(root, at),
        f"{path_text(at)}: " + fixed.format(value=value_text, bound=error.validator_value),
    )


_SENTENCES: Final[Mapping[str, str]] = {
    "const": "must be {bound}, not {value}",
    "minLength": "may not be empty",
    "maxLength": "is longer than {bound} characters",
    "minItems": "needs at least {bound} items",
    "maxItems": "has more than {bound} items",
    "minProperties": "needs at least {bound} fields",
    "maxProperties": "has more than {bound} fields",
    "minimum": "{value} is below the smallest value allowed, {bound}",
    "maximum": "{value} is above the largest value allowed, {bound}",
    "exclusiveMinimum": "{value} is not greater than {bound}; omit the field for no limit",
    "uniqueItems": "contains an item twice",
}


def _explain_missing(error: _Error, root: Node, at: Path) -> _Sentences:
    missing = [name for name in error.validator_value if name not in error.instance]
    for name in missing:
        yield place(root, at), f"{path_text((*at, name))} is missing"


def _explain_unknown(error: _Error, root: Node, at: Path) -> _Sentences:
    known_fields = error.schema.get("properties", {})
    for name in error.instance:
        if name in known_fields:
            continue
        close = difflib.get_close_matches(name, known_fields, n=1)
        hint = (
            f"did you mean {close[0]}?" if close else f"known: {', '.join(known_fields) or 'none'}"
        )
        yield key_place(root, (*at, name)), f"{path_text((*at, name))}: unknown field; {hint}"


_TYPE_NAMES: Final[Mapping[str, str]] = {
    "string": "text",
    "object": "a mapping",
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a decimal number without exponent",
}


_DURATION: Final = "ms|s|m|h"
"""A part of the patterns of durations."""


def _wrong_type(error: _Error, root: Node, at: Path) -> _Sentences:
    expected_type = error.validator_value
    kinds: list[str] = [expected_type] if isinstance(expected_type, str) else list(expected_type)
    node = find(root, at)
    location = place(root, at)
    if isinstance(node, ScalarNode) and _DURATION in str(error.schema.get("pattern", "")):
        yield (
            location,
            f"{path_text(at)}: {node.text!r} has no unit; write for example 90s, 10m or 1h30m",
        )
        return
    if isinstance(node, ScalarNode) and node.text.endswith("%") and "number" in kinds:
        yield location, f"{path_text(at)}: write the percentage without %: {node.text[:-1].strip()}"
        return
    # The field is text, and YAML readers read the scalar differently.
    if (
        isinstance(node, ScalarNode)
        and node.plain
        and kinds == ["string"]
        and not is_text(node.text)
    ):
        yield location, f"{path_text(at)}: {quote_it(node.text)}"
        return
    if isinstance(node, ScalarNode) and node.plain and meaning(node.text) is None:
        is_slot = at[: len(_ENTITY)] == _ENTITY and at != _ENTITY
        yield location, f"{path_text(at)}: {_NULL_SLOT if is_slot else _NULL}"
        return
    expected = " or ".join(_TYPE_NAMES[kind] for kind in kinds) + _example(at)
    if kinds == ["integer", "string"] and "pattern" in error.schema:
        expected = "a whole number such as 20000000 or a quantity such as 10Mi"
    if isinstance(node, ScalarNode) and node.plain:
        expected = _as_written_out(node.text, kinds) or expected
    actual = _describe_node(node)
    yield location, f"{path_text(at)}: must be {expected}, not {actual}"


def _as_written_out(text: str, kinds: list[str]) -> str:
    """Return how to write a number that has an exponent; "" if the text is none, or no field takes such a number."""
    if _EXPONENT.fullmatch(text) is None:
        return ""
    exact = quantity.parse(text)
    if not 0 < exact <= LONG_MAX or (exact.denominator > 1 and "number" not in kinds):
        return ""
    digits = quantity.decimal_text(exact)
    short = quantity.spell(int(exact)) if "string" in kinds else digits
    return digits if short == digits else f"{digits} or {short}"


_EXPONENT: Final = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,20})?[eE][+-]?[0-9]{1,2}")

_EXAMPLES: Final[Mapping[Path, str]] = {
    ("metadata",): "{name: checkout}",
    (
        "spec",
    ): "{clusterRef: {name: prod}, entity: {user: {name: checkout}}, limits: {producerByteRate: 10Mi}}",
    ("spec", "clusterRef"): "{name: prod}",
    ("spec", "entity"): "{user: {name: checkout}}",
    ("spec", "entity", "user"): "{name: checkout} or {default: true}",
    ("spec", "entity", "clientId"): "{name: checkout} or {default: true}",
    ("spec", "entity", "ip"): '{name: "10.0.0.7"} or {default: true}',
    ("spec", "limits"): "{producerByteRate: 10Mi}",
    ("spec", "properties"): "{security.protocol: SASL_SSL}",
    ("spec", "guards"): "{maxRemovals: 10}",
    ("spec", "manifests"): "[quotas]",
    ("spec", "tenants"): "[{namespaces: [payments], entities: [{user: {prefix: pay-}}]}]",
    ("spec", "scope"): "[{user: {prefix: pay-}}]",
}
"""Examples for the fields that most often have a wrong type."""


def _example(at: Path) -> str:
    example = _EXAMPLES.get(at)
    return "" if example is None else f" such as {example}"


def _describe_node(node: Node | None) -> str:
    match node:
        case MappingNode():
            return "a mapping"
        case ScalarNode(text, plain):
            excerpt = text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…"
            if plain and isinstance(meaning(text), AmbiguousScalar):
                return f"{excerpt!r}, which YAML parsers read differently"
            return f"{excerpt if plain else repr(excerpt)}"
        case _:
            return "a list"


def _enum(error: _Error, root: Node, at: Path) -> _Sentences:
    if isinstance(error.instance, AmbiguousScalar) or error.instance is None:
        return
    known_values = [
        str(value).lower() if isinstance(value, bool) else str(value)
        for value in error.validator_value
    ]
    if known_values == ["true"]:
        words = "only true is allowed; omit the field if the default is not intended"
        yield place(root, at), f"{path_text(at)}: {words}"
        return
    if not isinstance(error.instance, str):
        return
    close = difflib.get_close_matches(error.instance, known_values, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    excerpt = repr(error.instance[:_MOST_SHOWN])
    yield (
        place(root, at),
        f"{path_text(at)}: {excerpt} is not one of {', '.join(known_values)}{hint}",
    )


def _quantity(text: str) -> str:
    try:
        return f"{quantity.manifest_whole(text)} is not in the pattern"
    except QuotaValueError as wrong:
        return wrong.message


_PATTERNS: Final[Mapping[str, str]] = {
    schema_names.DNS_LABEL: "is not a valid namespace name: use lowercase letters, digits and dashes",
    schema_names.TIME: 'is not a time; write for example "2035-12-31T00:00:00Z", in quotes',
    schema_names.DNS_SUBDOMAIN: "is not a valid resource name: use lowercase letters, digits, dashes and dots",
}


def _pattern(error: _Error, root: Node, at: Path) -> _Sentences:
    excerpt = repr(str(error.instance)[:_MOST_SHOWN])
    pattern = str(error.validator_value)
    if pattern == quantity.MANIFEST_PATTERN:
        yield place(root, at), f"{path_text(at)}: {_quantity(str(error.instance))}"
        return
    if _DURATION in pattern:
        words = "is not a duration; write for example 90s, 10m or 1h30m"
    else:
        words = _PATTERNS.get(pattern, f"does not match {pattern}")
    yield place(root, at), f"{path_text(at)}: {excerpt} {words}"


_WORDS: Final[Mapping[str, Callable[[Any, Node, Path], _Sentences]]] = {
    "required": _explain_missing,
    "additionalProperties": _explain_unknown,
    "type": _wrong_type,
    "enum": _enum,
    "pattern": _pattern,
}
