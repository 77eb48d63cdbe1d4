"""Writes what follows from ``quota/keys.py`` into the CRDs and the chart: ``python -m tools.key_schemas --write`` or ``--check``.

In files that people write it replaces only entries whose value does not follow from the keys; every other line stays as it is.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import yaml

from reconciler.manifest.rules.client_quota import QUOTA_RULES
from reconciler.manifest.rules.cluster import CLUSTER_RULES
from reconciler.quota.keys import COLUMNS, FIELDS, RULES, Key, KeyDefinition
from tools import modes

_Json: TypeAlias = Any
_Path: TypeAlias = tuple[str | int, ...]


class KeyTexts(NamedTuple):
    """What people read about a key."""

    limit: str  # its field in the limits of a ClientQuota
    column: str  # its column in the output of kubectl get
    declared: str  # the meaning of the column, after "Declared"
    bounds: str  # its bounds in the values of the chart


TEXTS: Final[Mapping[Key, KeyTexts]] = {
    Key.PRODUCER_BYTE_RATE: KeyTexts(
        limit="Bytes per second that the entity may produce, per broker (Kafka's producer_byte_rate). "
        "A whole number or a quantity such as 10Mi.",
        column="Producer",
        declared="bytes per second that may be produced, per broker.",
        bounds="Bytes per second per broker.",
    ),
    Key.CONSUMER_BYTE_RATE: KeyTexts(
        limit="Bytes per second that the entity may consume, per broker (consumer_byte_rate). "
        "A whole number or a quantity such as 10Mi.",
        column="Consumer",
        declared="bytes per second that may be consumed, per broker.",
        bounds="Bytes per second per broker.",
    ),
    Key.REQUEST_PERCENTAGE: KeyTexts(
        limit="Share of one request handler and network thread, in percent, per broker (request_percentage). "
        "May exceed 100.",
        column="Request%",
        declared="share of one request thread, in percent, per broker.",
        bounds="Percent of a thread per broker.",
    ),
    Key.CONTROLLER_MUTATION_RATE: KeyTexts(
        limit="Partitions created, added or deleted per second, at the active controller (controller_mutation_rate).",
        column="Mutation",
        declared="partition mutations per second, at the active controller.",
        bounds="Partitions per second.",
    ),
    Key.CONNECTION_CREATION_RATE: KeyTexts(
        limit="New connections per second, per broker (connection_creation_rate). Only on ip entities.",
        column="Connection",
        declared="new connections per second, per broker.",
        bounds="Connections per second per broker.",
    ),
}

_QUANTITY: Final = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "maxLength": 64,
}


def crd_values(crd: Mapping[str, _Json]) -> Iterator[tuple[_Path, _Json]]:
    """Yield the places of a CRD that follow from the keys, with their values."""
    kind = crd["spec"]["names"]["kind"]
    version: _Path = ("spec", "versions", 0)
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    yield from _field_values(kind, schema, (*version, "schema", "openAPIV3Schema"), ())
    if kind == "ClientQuota":
        columns = crd["spec"]["versions"][0]["additionalPrinterColumns"]
        yield (*version, "additionalPrinterColumns"), _with_columns(columns)


def _field_values(
    kind: str, schema: Mapping[str, _Json], place: _Path, at: tuple[str, ...]
) -> Iterator[tuple[_Path, _Json]]:
    """Yield the places below a field, which the rules know as ``at``."""
    fields = schema.get("properties", {})
    if FIELDS.keys() & fields.keys():
        yield (
            (*place, "properties"),
            {RULES[key].field: _key_field(kind, key, (*at, RULES[key].field)) for key in COLUMNS},
        )
    else:
        for name, field in fields.items():
            yield from _field_values(kind, field, (*place, "properties", name), (*at, name))
    if "items" in schema:
        yield from _field_values(kind, schema["items"], (*place, "items"), (*at, "*"))
        if _is_set_of_keys(schema):
            yield (*place, "maxItems"), len(COLUMNS)
    if _is_key(schema):
        yield (*place, "enum"), [str(key) for key in COLUMNS]
    if kind == "ClientQuota" and at == ("spec",):
        yield (*place, "x-kubernetes-validations"), _validations(kind, at)


def _is_key(schema: Mapping[str, _Json]) -> bool:
    return not set(schema.get("enum", ())).isdisjoint(COLUMNS)


def _is_set_of_keys(schema: Mapping[str, _Json]) -> bool:
    """Whether an array has at most one item for each key."""
    items = schema["items"]
    return (schema.get("x-kubernetes-list-type") == "set" and _is_key(items)) or (
        schema.get("x-kubernetes-list-map-keys") == ["key"] and _is_key(items["properties"]["key"])
    )


def _key_field(kind: str, key: Key, at: tuple[str, ...]) -> _Json:
    """Return the schema of a key in limits or in bounds."""
    rule = RULES[key]
    if kind == "ClientQuota" or "budgets" in at:
        number = {"type": "number", "minimum": 0, "exclusiveMinimum": True}
        text = TEXTS[key].limit if kind == "ClientQuota" else TEXTS[key].bounds
        return _number_field(rule, text, number, _validations(kind, at))
    sides = (("min", "Smallest value allowed."), ("max", "Largest value allowed."))
    return {
        "description": f"Bounds of {rule.field}.",
        "type": "object",
        "properties": {
            side: _number_field(
                rule, text, {"type": "number", "minimum": 0}, _validations(kind, (*at, side))
            )
            for side, text in sides
        },
        "minProperties": 1,
        "x-kubernetes-validations": _validations(kind, at),
    }


def _number_field(
    rule: KeyDefinition, description: str, number: _Json, validations: _Json
) -> _Json:
    value = _QUANTITY | {"x-kubernetes-validations": validations} if rule.is_integer else number
    return {"description": description} | value


def _validations(kind: str, at: tuple[str, ...]) -> list[_Json]:
    """Return the rules of a place as the API server evaluates them."""
    return [
        {"rule": rule.cel, "message": rule.message}
        | ({"messageExpression": rule.message_cel} if rule.message_cel else {})
        | {"reason": f"FieldValue{'Forbidden' if 'oldSelf' in rule.cel else 'Invalid'}"}
        for rule in chain(QUOTA_RULES, CLUSTER_RULES)
        if (rule.kind, rule.at) == (kind, at) and rule.cel
    ]


def _with_columns(columns: Sequence[_Json]) -> list[_Json]:
    """Return the printer columns with one for each key, at the place of those."""
    limits = ".spec.limits."
    of_keys = [
        {
            "name": TEXTS[key].column,
            "type": "string",
            "jsonPath": f"{limits}{RULES[key].field}",
            "description": f"Declared {TEXTS[key].declared}",
        }
        for key in COLUMNS
    ]
    others = [column for column in columns if not column["jsonPath"].startswith(limits)]
    before = next(i for i, column in enumerate(columns) if column["jsonPath"].startswith(limits))
    return [*others[:before], *of_keys, *others[before:]]


_WIDTH: Final = 112


class _Dumper(yaml.SafeDumper):
    """Indents lists below their key, as in the CRDs, and repeats what occurs twice."""

    def increase_indent(self, flow: _Json = False, indentless: _Json = False) -> None:  # noqa: ARG002, FBT002 - PyYAML's signature
        super().increase_indent(flow=flow, indentless=False)

    def ignore_aliases(self, data: _Json) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def with_values(text: str, values: Mapping[_Path, _Json]) -> str:
    """Return a YAML text with other values at some places, none of them inside another one.

    Lines of entries that have the wanted value already are kept.
    """
    root: _Json = yaml.compose(text, yaml.CSafeLoader)
    lines = text.splitlines(keepends=True)
    edits = []
    for path, value in values.items():
        node = root
        for step in path:
            node = _child(node, step)
        edits.append((node.start_mark.line, _end_line(node), _written(lines, node, value)))
    for first, end, written in sorted(edits, reverse=True):
        lines[first:end] = [written]
    return "".join(lines)


def _child(node: _Json, step: str | int) -> _Json:
    if isinstance(step, int):
        return node.value[step]
    return next(value for name, value in node.value if name.value == step)


def _end_line(node: _Json) -> int:
    """Return the line after a value in block style."""
    if isinstance(node, yaml.ScalarNode):
        return int(node.end_mark.line) + 1
    last = node.value[-1]
    return _end_line(last[1] if isinstance(node, yaml.MappingNode) else last)


def _written(lines: Sequence[str], node: _Json, value: _Json) -> str:
    """Return the lines of a value: of a number that of its field, of a map or a list its entries."""
    if isinstance(node, yaml.ScalarNode):
        line = lines[node.start_mark.line]
        return f"{line[: node.start_mark.column]}{value}{line[node.end_mark.column :]}"
    present = {}
    for entry in node.value:
        first, last = entry if isinstance(node, yaml.MappingNode) else (entry, entry)
        kept = "".join(lines[first.start_mark.line : _end_line(last)])
        present[json.dumps(yaml.load(kept, yaml.CSafeLoader))] = kept
    entries = (
        [{name: item} for name, item in value.items()]
        if isinstance(node, yaml.MappingNode)
        else [[item] for item in value]
    )
    return "".join(
        present.get(json.dumps(entry)) or _dumped(entry, node.start_mark.column)
        for entry in entries
    )


def _dumped(value: _Json, column: int) -> str:
    text = yaml.dump(value, Dumper=_Dumper, width=_WIDTH - column, sort_keys=False)
    return "".join(f"{' ' * column}{line}" for line in text.splitlines(keepends=True))


def _chart_values(text: str) -> str:
    """Return the schema of the chart's values with bounds for every key."""
    schema = json.loads(text)
    policies = schema["properties"]["admissionPolicies"]["properties"]
    policies["guardRails"]["properties"]["limits"]["properties"] = {
        rule.field: _chart_bounds(rule)
        for rule in sorted(RULES.values(), key=lambda rule: not rule.is_integer)
    }
    return json.dumps(schema, indent=2) + "\n"


def _chart_bounds(rule: KeyDefinition) -> _Json:
    number, unit = (
        ({"type": "integer", "minimum": 1}, "(k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")
        if rule.is_integer
        else ({"type": "number", "exclusiveMinimum": 0}, "")
    )
    text = {"type": "string", "pattern": rf"^[0-9]+(\.[0-9]+)?{unit}$"}
    return {
        "description": TEXTS[rule.key].bounds,
        "type": "object",
        "additionalProperties": False,
        "properties": {
            side: {"description": f"No document may say {word}.", "oneOf": [number, text]}
            for side, word in (("min", "less"), ("max", "more"))
        },
        "minProperties": 1,
    }


def _with_fractions(template: str) -> str:
    """Return the template of the admission policies with the fields that take fractions."""
    fields = " ".join(f'"{rule.field}"' for rule in RULES.values() if not rule.is_integer)
    return re.sub(r"(?<=has \(index \. 1\) \(list )[^)]*", lambda _: fields, template)


CHART: Final = "charts/kafka-quota-reconciler"


def generate(root: Path) -> dict[str, str]:
    """Return the files of a checkout that name keys, by path, as they should be."""
    texts = {}
    for name in ("clientquotas", "quotaclusters"):
        path = f"crds/kafka-quotas.io_{name}.yaml"
        text = (root / path).read_text(encoding="utf-8")
        texts[path] = with_values(text, dict(crd_values(yaml.load(text, yaml.CSafeLoader))))
    for path, change in (
        (f"{CHART}/values.schema.json", _chart_values),
        (f"{CHART}/templates/admission-policies.yaml", _with_fractions),
    ):
        texts[path] = change((root / path).read_text(encoding="utf-8"))
    return texts


if __name__ == "__main__":
    sys.exit(modes.main(sys.argv[1:], modes.ROOT, lambda: generate(modes.ROOT)))
