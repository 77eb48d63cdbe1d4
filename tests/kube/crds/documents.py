"""Documents for the API server to validate: valid ones, and valid ones with a few invalid fields.

The invalid values come from the CRDs themselves (`values`). Everything here is JSON: no NaN, no lone
surrogates, which never reach an API server.
"""

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from tests.kube.crds.values import values
from tests.manifest.samples import FORMS, cluster, quota
from tools.file_schemas import CRDS

CRD_FOLDER = Path(__file__).parents[3] / "crds"
Step = str | int

# ---- right documents ----------------------------------------------------------------------------

NAMES = {"exact": {"exact": "payments"}, "prefix": {"prefix": "payments."}}
FULL_CLUSTER: Mapping[str, Any] = {
    "bootstrapServers": "one:9092,two:9092",
    "properties": {"security.protocol": "SASL_SSL", "request.timeout.ms": 5000},
    "propertiesFile": "client.properties",
    "secretRef": {"name": "kafka-admin"},
    "expectedClusterId": "MkU3OEVBNTcwNTJENDM2Qg",
    "policy": "Sync",
    "confirmSync": "MkU3OEVBNTcwNTJENDM2Qg",
    "driftDetection": "Correct",
    "interval": "1m30s",
    "suspend": False,
    "operatorClass": "blue",
    "scope": [
        {"user": NAMES["prefix"], "clientId": NAMES["exact"]},
        {"forms": ["user", "defaultUser"]},
        {"ip": {"prefix": "10."}},
    ],
    "ignore": [
        {
            "user": NAMES["exact"],
            "keys": ["producer_byte_rate", "request_percentage"],
            "reason": "set by the broker team",
            "until": "2026-12-31T00:00:00Z",
        },
        {"ip": {"exact": "10.0.0.1"}, "reason": "a probe"},
    ],
    "guards": {
        "maxRemovals": 5,
        "maxRemovedPercent": 12.5,
        "maxChangeFactor": 4,
        "newlyUnlimited": "Refuse",
        "protectDefaults": True,
        "approvedRemovals": [{"namespace": "team-a", "until": "2026-12-31T00:00:00Z"}],
        "protected": [
            {"user": NAMES["prefix"], "reason": "the platform team's"},
            {"forms": ["defaultIp"]},
        ],
        "bounds": [
            {
                "forms": ["user"],
                "user": NAMES["prefix"],
                "limits": {
                    "producerByteRate": {"min": "1Ki", "max": "1Gi"},
                    "consumerByteRate": {"max": 1000000000},
                },
            },
            {
                "ip": NAMES["prefix"],
                "limits": {
                    "connectionCreationRate": {"min": 1, "max": "1k"},
                    "requestPercentage": {"min": 0.5, "max": 100},
                    "controllerMutationRate": {"min": 1},
                },
            },
        ],
    },
    "tenants": [
        {
            "namespaces": ["payments", "shop"],
            "paths": ["quotas/payments"],
            "priority": -1,
            "entities": [
                {"user": {"prefix": "payments."}},
                {"forms": ["user+clientId"], "user": NAMES["exact"], "clientId": {"prefix": ""}},
                {"forms": ["defaultIp", "ip"], "ip": {"prefix": "10.1."}},
            ],
            "bounds": {
                "producerByteRate": {"min": "1Ki", "max": "100Mi"},
                "requestPercentage": {"max": 50},
            },
            "allow": ["Delete", "Suspend"],
        },
        {"namespaces": ["guests"], "entities": []},
    ],
    "telemetry": {
        "prometheus": "http://prometheus:9090",
        "matchers": 'cluster="prod"',
        "brokerId": "instance",
    },
    "brokerCapacity": {"ingress": "100Mi", "egress": 200000000, "headroom": 0.7},
}
DEPENDENT = {
    "expectedClusterId": ("policy",),
}


@st.composite
def right_quotas(draw: st.DrawFn) -> dict[str, Any]:
    """A valid ClientQuota."""
    form = copy.deepcopy(draw(st.sampled_from(FORMS)))
    limits: dict[str, Any] = {"connectionCreationRate": 5}
    if "ip" not in form:
        limits = {
            "producerByteRate": "10Mi",
            "consumerByteRate": 20000000,
            "requestPercentage": 5.5,
        }
        limits |= draw(st.sampled_from(({}, {"controllerMutationRate": 2})))
    document = quota(entity=form, limits=limits)
    document["metadata"] = {"name": "one", "namespace": "default"}
    document["spec"] |= draw(st.sampled_from(({}, {"deletionPolicy": "Delete"}, {"suspend": True})))
    return document


@st.composite
def right_clusters(draw: st.DrawFn) -> dict[str, Any]:
    """A valid QuotaCluster, with most of its fields."""
    spec = copy.deepcopy(dict(FULL_CLUSTER))
    for name in draw(st.lists(st.sampled_from(sorted(spec)), max_size=6)):
        for gone in (name, *DEPENDENT.get(name, ())):
            if gone != "bootstrapServers":
                spec.pop(gone, None)
    return {**cluster(), "spec": spec}


RIGHT = {"ClientQuota": right_quotas(), "QuotaCluster": right_clusters()}

# ---- where ---------------------------------------------------------------------------------------


def schema_of(kind: str, folder: Path = CRD_FOLDER) -> dict[str, Any]:
    """The structural schema of a kind."""
    text = (folder / CRDS[kind]).read_text(encoding="utf-8")
    crd = yaml.load(text, yaml.CSafeLoader)
    schema: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def fields(
    node: Mapping[str, Any], at: tuple[Step, ...] = ()
) -> Iterator[tuple[tuple[Step, ...], dict[str, Any]]]:
    """Every field below a schema with its path; items are at 0 and 1, free keys are `k`."""
    for name, child in node.get("properties", {}).items():
        yield (*at, name), child
        yield from fields(child, (*at, name))
    for index in (0, 1) if "items" in node else ():
        yield (*at, index), node["items"]
        yield from fields(node["items"], (*at, index))
    if isinstance(node.get("additionalProperties"), dict):
        yield (*at, "k"), node["additionalProperties"]


def put(document: Any, path: tuple[Step, ...], value: Any) -> None:
    """Set a value if its parents exist or can be created."""
    above = document
    for step in path[:-1]:
        if isinstance(above, dict) and isinstance(step, str):
            above = above.setdefault(step, {})
        elif isinstance(above, list) and isinstance(step, int) and step < len(above):
            above = above[step]
        else:
            return
    last = path[-1]
    if (isinstance(above, dict) and isinstance(last, str)) or (
        isinstance(above, list) and isinstance(last, int) and last < len(above)
    ):
        above[last] = value


def drop(document: Any, path: tuple[Step, ...]) -> None:
    above = document
    for step in path[:-1]:
        try:
            above = above[step]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(above, dict):
        above.pop(path[-1], None)
    elif isinstance(above, list) and isinstance(path[-1], int) and path[-1] < len(above):
        del above[path[-1]]


@st.composite
def documents(draw: st.DrawFn, kind: str) -> dict[str, Any]:
    """A valid document of a kind with up to two fields changed, removed or added."""
    document: dict[str, Any] = draw(RIGHT[kind])
    places = PLACES[kind]
    for _ in range(draw(st.integers(0, 2))):
        path, node = draw(st.sampled_from(places))
        act = draw(st.sampled_from(("set", "set", "set", "drop", "odd")))
        if act == "set":
            put(document, path, draw(values(node)))
        elif act == "drop":
            drop(document, path)
        else:
            put(document, (*path[:-1], "odd"), 1)
    return document


PLACES = {
    kind: [(("spec", *path), node) for path, node in fields(schema_of(kind)["properties"]["spec"])]
    for kind in CRDS
}
