"""The chart's files without helm: one version, one definition of each resource, a schema that refuses wrong values."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml

import reconciler
from tests.charts import argocd_patch, crd_templates, values_table
from tests.charts.chart_renderer import CHART, ROOT, VALUES

SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
DEFAULTS_TEXT = (CHART / "values.yaml").read_text(encoding="utf-8")
DEFAULTS: dict[str, Any] = yaml.safe_load(DEFAULTS_TEXT)
ABOUT: dict[str, Any] = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))


def errors(values: object) -> list[str]:
    return [error.message for error in jsonschema.Draft7Validator(SCHEMA).iter_errors(values)]


def objects(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """All objects of the schema that have fields."""
    if schema.get("type") == "object" and "properties" in schema:
        yield path or "the values", schema
    for name, inner in schema.get("properties", {}).items():
        yield from objects(inner, f"{path}.{name}".lstrip("."))
    if isinstance(items := schema.get("items"), dict):
        yield from objects(items, f"{path}[]")


def fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for name, inner in schema.get("properties", {}).items():
        where = f"{path}.{name}".lstrip(".")
        yield where, inner
        yield from fields(inner, where)


def merged(base: object, over: object) -> object:
    """The merge of two values as in helm: tables are merged, null removes."""
    if not isinstance(base, dict) or not isinstance(over, dict):
        return copy.deepcopy(over)
    result = copy.deepcopy(base)
    for name, value in over.items():
        result[name] = merged(base.get(name), value)
    return result


def test_the_chart_has_the_version_of_the_package() -> None:
    assert (ABOUT["version"], ABOUT["appVersion"]) == (reconciler.__version__,) * 2


def test_the_table_of_values_in_the_readme_is_up_to_date() -> None:
    text = values_table.README.read_text(encoding="utf-8")
    assert values_table.page(text) == text
    assert values_table.main(["--check"]) == 0
    assert "| `replicaCount` | `1` |" in text
    assert "| `metrics.podMonitor.interval` |" in text


def test_the_chart_refuses_an_unsupported_kubernetes_version() -> None:
    assert ABOUT["kubeVersion"] == ">=1.32.0-0"


@pytest.mark.parametrize(
    "path", sorted(crd_templates.CRDS.glob("*.yaml")), ids=lambda path: path.stem
)
def test_a_template_holds_its_definition_byte_for_byte(path: Any) -> None:
    template = (crd_templates.TEMPLATES / path.name).read_text(encoding="utf-8")
    assert crd_templates.unwrapped(template) == path.read_text(encoding="utf-8")
    assert crd_templates.stale() == []


def test_a_definition_that_would_be_parsed_as_a_template_is_refused() -> None:
    with pytest.raises(ValueError, match="taken for a template"):
        crd_templates.wrapped("a: b\nmetadata:\n  name: '{{ x }}'\n")
    with pytest.raises(ValueError, match="one `metadata:`"):
        crd_templates.wrapped("a: b\n")


def test_the_patch_for_argo_cd_contains_the_scripts() -> None:
    assert argocd_patch.PATCH.read_text(encoding="utf-8") == argocd_patch.patch()
    keys = yaml.safe_load(argocd_patch.patch())["data"]
    inner = yaml.safe_load(keys["resource.customizations.actions.kafka-quotas.io_ClientQuota"])
    assert [definition["name"] for definition in inner["definitions"]] == list(argocd_patch.ACTIONS)
    assert inner["definitions"][0]["action.lua"] == argocd_patch.script("actions/suspend.lua")


def test_the_schema_is_valid_and_the_defaults_match_it() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert errors(DEFAULTS) == []


def test_every_object_of_the_schema_is_closed() -> None:
    # Documents and containers of Kubernetes' own are checked by the API server.
    open_ones = [
        path
        for path, schema in objects(SCHEMA)
        if schema.get("additionalProperties") is not False and not schema.get("required")
    ]
    assert open_ones == []
    assert SCHEMA["additionalProperties"] is False


def test_every_field_of_the_schema_has_a_description() -> None:
    described = [
        path
        for path, schema in fields(SCHEMA)
        if not schema.get("description") and "const" not in schema and ".documents" not in path
    ]
    assert described == []


def test_the_schema_and_the_values_file_contain_the_same_fields() -> None:
    def names(values: object, schema: dict[str, Any], path: str = "") -> Iterator[str]:
        properties = schema.get("properties")
        if isinstance(values, dict) and properties:
            for name in set(properties) | set(values):
                where = f"{path}.{name}".lstrip(".")
                if (name in properties) != (name in values):
                    yield where
                elif name in properties:
                    yield from names(values[name], properties[name], where)

    optional = {"global", "livenessProbe.successThreshold", "readinessProbe.successThreshold"}
    optional |= {
        f"webhook.certificate.certManager.issuerRef.{name}" for name in ("name", "kind", "group")
    }
    limits = SCHEMA["properties"]["admissionPolicies"]["properties"]["guardRails"]["properties"][
        "limits"
    ]
    optional |= {f"admissionPolicies.guardRails.limits.{name}" for name in limits["properties"]}
    assert set(names(DEFAULTS, SCHEMA)) == optional


@pytest.mark.parametrize("name", VALUES)
def test_the_table_of_values_matches_the_schema(name: str) -> None:
    values = yaml.safe_load(VALUES[name].read_text(encoding="utf-8"))
    assert errors(merged(DEFAULTS, values)) == []
    assert VALUES[name].read_text(encoding="utf-8").startswith("# ")


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"replica": 2}, "'replica' was unexpected"),
        ({"image": {"repo": "x"}}, "'repo' was unexpected"),
        ({"image": {"digest": "sha256:abc"}}, "does not match"),
        ({"image": {"repository": "a@sha256:00"}}, "does not match"),
        ({"replicaCount": "2"}, "is not of type 'integer'"),
        ({"replicaCount": 11}, "is greater than the maximum"),
        ({"watch": {"namespaces": "payments"}}, "is not of type 'array'"),
        ({"watch": {"namespaces": ["a", "a"]}}, "non-unique"),
        ({"watch": {"namespaces": ["Payments"]}}, "does not match"),
        ({"operator": {"deletionTimeout": "10 minutes"}}, "does not match"),
        ({"webhook": {"timeoutSeconds": 30}}, "is greater than the maximum"),
        ({"webhook": {"failurePolicy": "Fail"}}, "'failurePolicy' was unexpected"),
        ({"metrics": {"renderMode": "always"}}, "is not one of"),
        (
            {"admissionPolicies": {"guardRails": {"limits": {"producer_byte_rate": {"max": 1}}}}},
            "was unexpected",
        ),
        (
            {
                "admissionPolicies": {
                    "guardRails": {"limits": {"producerByteRate": {"max": "fast"}}}
                }
            },
            "not valid under any",
        ),
        ({"admissionPolicies": {"guardRails": {"limits": {"producerByteRate": {}}}}}, "non-empty"),
        ({"admissionPolicies": {"guardRails": {"action": "Refuse"}}}, "is not one of"),
        ({"podDisruptionBudget": {"minAvailable": "half"}}, "not valid under any"),
        ({"quotaClusters": {"fromFile": {"documents": [{"kind": "ClientQuota"}]}}}, "was expected"),
        ({"imagePullSecrets": ["mirror"]}, "is not of type 'object'"),
        ({"commonLabels": {"cost-center": 4711}}, "is not of type 'string'"),
        ({"networkPolicy": {"egress": {"apiServerPorts": []}}}, "non-empty"),
        ({"securityContext": "none"}, "is not of type 'object'"),
    ],
    ids=str,
)
def test_a_misspelled_value_is_refused(values: object, why: str) -> None:
    messages = errors(merged(DEFAULTS, values))
    assert any(why in message for message in messages), messages


def test_the_files_of_the_chart_contain_no_placeholder() -> None:
    words = ("TODO", "FIXME", "example.org/changeme")
    texts = {path: path.read_text(encoding="utf-8") for path in CHART.rglob("*") if path.is_file()}
    assert [
        path.relative_to(ROOT)
        for path, text in texts.items()
        if any(word in text for word in words)
    ] == []
