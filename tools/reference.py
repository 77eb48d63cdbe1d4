"""Renders ``docs/reference.md``: fields of files and custom resources, columns of ``kubectl``, CEL rules. No I/O."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

_HEAD: Final = """\
<!-- Generated from crds/ by `make generate`; edit the descriptions there. -->
# Reference of documents

Every field of the documents that `kquota` reads. A `ClientQuota` or `QuotaCluster` in a file and one in Kubernetes are the
same document. Unknown fields are errors, with file, line and column. What the reasons in `status.conditions` mean, and
what to do about each, is in [troubleshooting.md](troubleshooting.md).

- [ClientQuota](#clientquota): [in Kubernetes](#clientquota-in-kubernetes)
- [QuotaCluster](#quotacluster): [in Kubernetes](#quotacluster-in-kubernetes)
- [QuotaProject](#quotaproject)

In Kubernetes the operator writes `status` and its own finalizer `kafka-quotas.io/release`, and nothing else. The annotation
`kafka-quotas.io/requestedAt` with any new value asks for a reconciliation; `status.lastHandledReconcileAt` answers with that
value.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentKind:
    """One kind of document.

    Attributes:
        schema: Schema of the document in a file.
        crd: The CRD as parsed from YAML; None = a document of files only.
        status: Schema of the status of the custom resource, closed.
    """

    schema: Mapping[str, Any]
    crd: Mapping[str, Any] | None = None
    status: Mapping[str, Any] | None = None


def reference(*kinds: DocumentKind) -> str:
    """Return the whole page."""
    return _HEAD + "".join(part for kind in kinds for part in _kind(kind))


def _kind(kind: DocumentKind) -> Iterator[str]:
    yield f"\n## {kind.schema['title']}\n\n{kind.schema['description']}\n"
    yield from tables(kind.schema, "")
    if kind.crd and kind.status:
        yield from _in_kubernetes(kind.crd, kind.status)


def _in_kubernetes(crd: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[str]:
    spec = crd["spec"]
    names, version = spec["names"], spec["versions"][0]
    schema: Mapping[str, Any] = version["schema"]["openAPIV3Schema"]
    yield f"\n## {names['kind']} in Kubernetes\n\n"
    yield f"- Scope: {'one namespace' if spec['scope'] == 'Namespaced' else 'the whole Kubernetes cluster'}\n"
    yield f"- Names: `{names['plural']}`, `{names['singular']}`, {_names_text(names['shortNames'])}\n"
    yield f"- Categories: {_names_text(names['categories'])} (`kubectl get {names['categories'][0]}`)\n"
    selectable = [field["jsonPath"].removeprefix(".") for field in version["selectableFields"]]
    yield f"- Field selectors: {_names_text(selectable)}\n"
    yield f"\n### Columns of `kubectl get {names['shortNames'][0]}`\n\n"
    yield "| column | shows | meaning |\n| --- | --- | --- |\n"
    for column in version["additionalPrinterColumns"]:
        wide_note = " (with `-o wide`)" if column.get("priority") else ""
        path = cell(column["jsonPath"].removeprefix("."))
        yield f"| {column['name']} | `{path}` | {cell(column['description'])}{wide_note} |\n"
    yield f"\n### `status` of {names['kind']}\n\n{status['description']}\n"
    yield from tables(status, "", above="status")
    yield f"\n### Rules of {names['kind']}\n\nThe API server refuses what breaks one of these, with this sentence.\n\n"
    yield "| at | sentence |\n| --- | --- |\n"
    for path, message in dict.fromkeys(_rules(schema["properties"]["spec"], "spec")):
        yield f"| `{path}` | {cell(message)} |\n"


def _names_text(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _rules(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Yield path and message of every CEL rule below a node."""
    for rule in node.get("x-kubernetes-validations", ()):
        yield path, rule["message"]
    for name, below in node.get("properties", {}).items():
        yield from _rules(below, f"{path}.{name}")
    if isinstance(node.get("items"), Mapping):
        yield from _rules(node["items"], f"{path}[]")


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
