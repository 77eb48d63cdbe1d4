"""The schema of a status in the CRDs as closed JSON Schema: a field that the API server would drop is an error."""

from functools import cache
from pathlib import Path

import yaml
from jsonschema import Draft202012Validator

CRDS = Path(__file__).parents[2] / "crds"
_FILES = {
    "ClientQuota": "kafka-quotas.io_clientquotas.yaml",
    "QuotaCluster": "kafka-quotas.io_quotaclusters.yaml",
}


@cache
def validator(kind: str) -> Draft202012Validator:
    text = (CRDS / _FILES[kind]).read_text()
    version = yaml.safe_load(text)["spec"]["versions"][0]
    return Draft202012Validator(
        _closed(version["schema"]["openAPIV3Schema"]["properties"]["status"])
    )


def _closed(node):
    if isinstance(node, dict):
        schema = {key: _closed(value) for key, value in node.items() if not key.startswith("x-")}
        if "properties" in schema:
            schema["additionalProperties"] = False
        return schema
    return [_closed(child) for child in node] if isinstance(node, list) else node


def faults(kind: str, status: dict) -> list[str]:
    """Errors for which the API server would refuse or drop fields."""
    messages = [
        f"{error.json_path}: {error.message[:200]}" for error in validator(kind).iter_errors(status)
    ]
    for name, by in (("conditions", "type"), ("keys", "key")):
        names = [item[by] for item in status.get(name, ())]
        messages += [f"{name} has an item twice"] if len(set(names)) < len(names) else []
    return messages
