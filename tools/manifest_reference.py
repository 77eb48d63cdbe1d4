"""Renders ``docs/manifest-reference.md`` from the file schemas: one table per object. No I/O."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

_HEAD: Final = """\
<!-- Generated from crds/ by `make generate`; edit the descriptions there. -->
# Manifest reference

Every field of the documents that `kquota` reads. The same definitions are the custom resources' (`crds/`).
Unknown fields are errors, with file, line and column.

Let your editor check while you type, by a first line such as

```yaml
# yaml-language-server: $schema=<checkout>/reconciler/manifest/schemas/manifest.json
```

and `kquota.json` for the project file.

## Writing YAML that every reader takes alike

- Names are quoted unless they are plain text to YAML 1.1, YAML 1.2 and `kubectl` alike. `y`, `on`, `1e7`, `0o17`, `12:30`,
  `2024-01-01`, `123`, `~` and the like are refused without quotes.
- A limit is a whole number (`20000000`) or a quantity (`10Mi`, `20M`), or a decimal (`50.5`), as its table says. No
  exponents without quotes, no underscores, no leading zeros or signs.
- The default is `{default: true}`. An empty value is an error, never the default. The name `<default>` is just a name.
- Duplicate keys, tags, merge keys and directives are refused. Anchors are read as long as their aliases stay small.
- Files may hold many documents, `kind: List` and `kind: ClientQuotaList`; the output of `kubectl get ckq -o yaml` is a manifest.
- `9223372036854775807` means 2^63, the broker's maximum; other whole numbers must be ones that float64 holds exactly.

```yaml
apiVersion: kafka-quotas.io/v1alpha1
kind: ClientQuota
metadata:
  name: alice-checkout
  namespace: payments
spec:
  clusterRef: {name: demo}
  entity:
    user: {name: alice}
    clientId: {default: true}
  limits:
    producerByteRate: 10Mi
    requestPercentage: 50.5
```
"""


def reference(*schemas: Mapping[str, Any]) -> str:
    """Return the whole page."""
    parts = [_HEAD]
    for schema in schemas:
        parts.append(f"\n## {schema['title']}\n\n{schema['description']}\n")
        parts.extend(tables(schema, ""))
    return "".join(parts)


def tables(schema: Mapping[str, Any], path: str, *, above: str = "") -> Iterator[str]:
    """Yield a table of an object's fields, then those of the objects below it.

    Args:
        schema: Schema of the object.
        path: Path of the object; "" for the root.
        above: Prefix of the headings.
    """
    properties: Mapping[str, Any] = schema.get("properties", {})
    if not properties:
        return
    required = schema.get("required", ())
    yield (
        f"\n{'####' if above else '###'} `{f'{above}.{path}' if above else path}`\n\n"
        if path
        else "\n"
    )
    yield "| field | type | | meaning |\n| --- | --- | --- | --- |\n"
    for name, field in properties.items():
        need = "required" if name in required else ""
        yield f"| `{name}` | {_type(field)} | {need} | {cell(_meaning(field))} |\n"
    for name, field in properties.items():
        below = f"{path}.{name}" if path else name
        value_schema = field.get("additionalProperties")
        if field.get("type") == "array":
            yield from tables(field["items"], f"{below}[]", above=above)
        elif isinstance(value_schema, Mapping):
            yield from tables(value_schema, f"{below}.NAME", above=above)
        else:
            yield from tables(field, below, above=above)


def _type(field: Mapping[str, Any]) -> str:
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(
            f"`{str(value).lower() if value is True else value}`" for value in field["enum"]
        )
    kind = field.get("type", "anything")
    if isinstance(kind, list):
        return _mixed(field)
    if kind == "array":
        return f"list of {_type(field['items'])}"
    if kind == "object" and "additionalProperties" in field and "properties" not in field:
        return f"map of {_type(field['additionalProperties'])}"
    return _TYPES.get(str(kind), str(kind))


def _mixed(field: Mapping[str, Any]) -> str:
    if "object" in field["type"]:
        return "decimal or object"
    return "whole number or quantity" if "pattern" in field else "text or whole number"


_TYPES: Final = {
    "string": "text",
    "boolean": "true or false",
    "integer": "whole number",
    "number": "decimal",
}

_BOUNDS: Final = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "at most {}"),
    ("maxLength", "at most {} characters"),
    ("maxItems", "at most {} items"),
    ("minItems", "at least {} items"),
    ("minProperties", "at least {} fields"),
    ("maxProperties", "at most {} fields"),
)


def _meaning(field: Mapping[str, Any]) -> str:
    # Whole numbers are int64 everywhere; the schema states these bounds beside strings, the page omits them.
    mixed = isinstance(field.get("type"), list) and "string" in field["type"]
    implied = ("minimum", "maximum") if mixed else ()
    bounds = [
        words.format(field[word])
        for word, words in _BOUNDS
        if word in field and word not in implied
    ]
    text = str(field.get("description", ""))
    return f"{text} ({'; '.join(bounds)})" if bounds else text


def cell(text: str) -> str:
    """Escape text for one cell of a Markdown table."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
