"""Validation of requests and responses against GitHub's published description: path, method, parameters, bodies."""

import copy
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jsonschema
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from tests.forge.tools import description

ROOT = "urn:github"


@dataclass(frozen=True)
class Operation:
    """One method of one path."""

    id: str
    method: str
    path: str
    spec: dict


class Description:
    """The used part of an OpenAPI 3.0 document."""

    def __init__(self, document: dict) -> None:
        self._document = _nullable(document)
        resource = Resource.from_contents(self._document, default_specification=DRAFT202012)
        self._registry = Registry().with_resource(ROOT, resource)
        self._paths = [
            (re.compile(re.sub(r"\\\{[^/]+?\\\}", "([^/]+)", re.escape(path)) + r"\Z"), path)
            for path in self._document["paths"]
        ]

    def operation(self, method: str, path: str) -> Operation | None:
        """The operation of a request; a path without a variable takes precedence."""
        paths = [name for pattern, name in self._paths if pattern.match(path)]
        for name in sorted(paths, key=lambda name: name.count("{")):
            spec = self._document["paths"][name].get(method.lower())
            if spec is not None:
                return Operation(id=spec["operationId"], method=method, path=name, spec=spec)
        return None

    def request_faults(self, operation: Operation, query: dict[str, str], body: Any) -> list[str]:
        """Errors in parameters and body; empty = none."""
        faults: list[str] = []
        parameters = {
            parameter["name"]: parameter
            for parameter in map(self._resolved, operation.spec["parameters"])
        }
        for name, value in query.items():
            parameter = parameters.get(name)
            if parameter is None or parameter["in"] != "query":
                faults.append(f"{operation.id} has no query parameter {name}")
                continue
            faults += self._faults(
                _typed(value, parameter["schema"]), parameter["schema"], f"query {name}"
            )
        body_spec = operation.spec.get("requestBody")
        if body_spec is None:
            return faults + ([f"{operation.id} takes no body"] if body is not None else [])
        schema = body_spec["content"]["application/json"]["schema"]
        if body is None:
            return faults + ([f"{operation.id} needs a body"] if body_spec.get("required") else [])
        strict = schema | {"additionalProperties": False} if "properties" in schema else schema
        return faults + self._faults(body, strict, "body")

    def answer_faults(self, operation: Operation, status: int, body: Any) -> list[str]:
        """Errors in a response of the fake; empty = none."""
        spec = operation.spec["responses"].get(str(status))
        if spec is None:
            return []  # rate limits and similar are described elsewhere
        content = self._resolved(spec).get("content", {}).get("application/json")
        return [] if content is None else self._faults(body, content["schema"], f"answer {status}")

    def example(self, operation: Operation, status: int) -> Any:
        """A copy of the example of a response."""
        content = self._resolved(operation.spec["responses"][str(status)])["content"]
        examples = content["application/json"]["examples"]
        return copy.deepcopy(self._resolved(next(iter(examples.values())))["value"])

    def _resolved(self, spec: dict) -> dict:
        while "$ref" in spec:
            at: Any = self._document
            for step in spec["$ref"].removeprefix("#/").split("/"):
                at = at[step.replace("~1", "/").replace("~0", "~")]
            spec = at
        return spec

    def _faults(self, value: Any, schema: dict, what: str) -> list[str]:
        validator = jsonschema.Draft202012Validator(_absolute(schema), registry=self._registry)
        return [
            f"{what}: {error.json_path}: {error.message[:300]}"
            for error in validator.iter_errors(value)
        ]


def _typed(value: str, schema: dict) -> Any:
    if schema.get("type") == "integer" and value.isdigit():
        return int(value)
    return (
        {"true": True, "false": False}.get(value, value)
        if schema.get("type") == "boolean"
        else value
    )


def _nullable(node: Any) -> Any:
    """Convert OpenAPI 3.0's `nullable: true` to a JSON Schema with type `null`."""
    if isinstance(node, list):
        return [_nullable(child) for child in node]
    if not isinstance(node, dict):
        return node
    schema = {name: _nullable(child) for name, child in node.items()}
    if schema.get("nullable") is True and (
        "type" in schema
        or "$ref" in schema
        or "anyOf" in schema
        or "allOf" in schema
        or "oneOf" in schema
    ):
        schema.pop("nullable")
        return {"anyOf": [schema, {"type": "null"}]}
    return schema


def _absolute(schema: Any) -> Any:
    """Resolve references of an inline schema in the whole document."""
    if isinstance(schema, list):
        return [_absolute(child) for child in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: f"{ROOT}{text}"
        if name == "$ref" and isinstance(text, str) and text.startswith("#")
        else _absolute(text)
        for name, text in schema.items()
    }


@lru_cache(maxsize=1)
def github() -> Description:
    """GitHub's description."""
    return Description(description())
