"""Renders ``docs/crd-reference.md`` from the CRDs: columns of ``kubectl``, fields of spec and status, CEL rules. No I/O."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tools.manifest_reference import cell, tables

_HEAD: Final = """\
<!-- Generated from crds/ by `make generate`; edit the descriptions there. -->
# CRD reference

The two custom resources of group `kafka-quotas.io/v1alpha1`, as `crds/` defines them. A `ClientQuota` in a file and one in
Kubernetes are the same document; how to write one so that every YAML reader takes it alike is in
[manifest-reference.md](manifest-reference.md). What the reasons in `status.conditions` mean, and what to do about each, is
in [troubleshooting.md](troubleshooting.md).

The operator writes `status` and its own finalizer `kafka-quotas.io/release`, and nothing else. The annotation
`kafka-quotas.io/requestedAt` with any new value asks for a reconciliation; `status.lastHandledReconcileAt` answers with that value.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomResourceKind:
    """One custom resource.

    Attributes:
        crd: The CRD as parsed from YAML.
        spec: Schema of the spec, closed.
        status: Schema of the status, closed.
    """

    crd: Mapping[str, Any]
    spec: Mapping[str, Any]
    status: Mapping[str, Any]


def crd_reference(*kinds: CustomResourceKind) -> str:
    """Return the whole page."""
    return _HEAD + "".join(part for kind in kinds for part in _kind(kind))


def _kind(kind: CustomResourceKind) -> Iterator[str]:
    spec = kind.crd["spec"]
    names, version = spec["names"], spec["versions"][0]
    schema: Mapping[str, Any] = version["schema"]["openAPIV3Schema"]
    yield f"\n## {names['kind']}\n\n{schema['description']}\n\n"
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
    for name, part in (("spec", kind.spec), ("status", kind.status)):
        yield f"\n### `{name}` of {names['kind']}\n\n{part['description']}\n"
        yield from tables(part, "", above=name)
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
