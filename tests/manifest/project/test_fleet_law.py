"""The law of documents that select clusters: the result for each cluster equals that of the expanded documents."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.manifest.loader import load_files
from reconciler.manifest.project.file import Project, parse
from reconciler.manifest.project.selection import for_cluster
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.planner.comparison import compare
from reconciler.quota.planner.desired_state import (
    NO_SELECTIONS,
    DesiredState,
    conflict_problems,
    merge,
)
from reconciler.quota.policy import Rules
from reconciler.quota.state import QuotaState

KEYS = ("producerByteRate", "consumerByteRate", "requestPercentage")
LABELS = ("tier", "region")
VALUES = ("a", "b")

limits = st.dictionaries(st.sampled_from(KEYS), st.integers(1, 9), min_size=1)
labels = st.dictionaries(st.sampled_from(LABELS), st.sampled_from(VALUES))
fleets = st.dictionaries(st.sampled_from(("c1", "c2", "c3", "c4")), labels, min_size=1)
expressions = st.one_of(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from((*LABELS, "kafka-quotas.io/name")),
            "operator": st.sampled_from(("In", "NotIn")),
            "values": st.lists(st.sampled_from((*VALUES, "c1", "c2")), min_size=1, max_size=2),
        }
    ),
    st.fixed_dictionaries(
        {"key": st.sampled_from(LABELS), "operator": st.sampled_from(("Exists", "DoesNotExist"))}
    ),
)
selectors = st.fixed_dictionaries(
    {}, optional={"matchLabels": labels, "matchExpressions": st.lists(expressions, max_size=2)}
)


@st.composite
def documents(draw: st.DrawFn, names: list[str]) -> dict[str, Any]:
    """A document of a few users, so that some of them overlap."""
    spec: dict[str, Any] = {
        "entity": {"user": {"name": draw(st.sampled_from(("u1", "pay-2")))}},
        "limits": draw(limits),
        "deletionPolicy": draw(st.sampled_from(("Retain", "Delete"))),
        "suspend": draw(st.booleans()),
    }
    if draw(st.integers(0, 3)):
        items = st.fixed_dictionaries({"limits": limits, "clusterSelector": selectors}) | (
            st.fixed_dictionaries(
                {
                    "limits": limits,
                    "clusterRef": st.fixed_dictionaries({"name": st.sampled_from(names)}),
                }
            )
        )
        spec |= {
            "clusterSelector": draw(selectors),
            "clusterLimits": draw(st.lists(items, max_size=3)),
        }
    else:
        spec["clusterRef"] = {"name": draw(st.sampled_from(names))}
    namespace = draw(st.sampled_from(("payments", "fraud")))
    metadata = {"name": "a", "namespace": namespace, "labels": draw(labels)}
    return {
        "apiVersion": "kafka-quotas.io/v1alpha1",
        "kind": "ClientQuota",
        "metadata": metadata,
        "spec": spec,
    }


def selected(selector: dict[str, Any], name: str, own: dict[str, str]) -> bool:
    """An independent implementation of the selectors in Kubernetes' documentation."""
    present = own | {"kafka-quotas.io/name": name}
    verdicts = [present.get(key) == value for key, value in selector.get("matchLabels", {}).items()]
    for part in selector.get("matchExpressions", ()):
        key, values = part["key"], part.get("values", ())
        verdicts.append(
            {
                "In": key in present and present[key] in values,
                "NotIn": key not in present or present[key] not in values,
                "Exists": key in present,
                "DoesNotExist": key not in present,
            }[part["operator"]]
        )
    return all(verdicts)


def expanded(document: dict[str, Any], fleet: dict[str, dict[str, str]]) -> list[dict[str, Any]]:
    """The documents with clusterRef to which a document expands."""
    spec = document["spec"]
    if "clusterRef" in spec:
        return [document]
    results = []
    for name, own in fleet.items():
        if not selected(spec["clusterSelector"], name, own):
            continue
        values = dict(spec["limits"])
        for item in spec["clusterLimits"]:
            named = item.get("clusterRef", {}).get("name")
            if named == name or (named is None and selected(item["clusterSelector"], name, own)):
                values |= item["limits"]
        common_fields = {key: spec[key] for key in ("entity", "deletionPolicy", "suspend")}
        results.append(
            {**document, "spec": {**common_fields, "clusterRef": {"name": name}, "limits": values}}
        )
    return results


def project_of(fleet: dict[str, dict[str, str]]) -> Project:
    """A project in which one tenant may declare users with a prefix up to a bound, in the first cluster."""
    resources = []
    for position, (name, own) in enumerate(sorted(fleet.items())):
        spec: dict[str, Any] = {"bootstrapServers": "localhost:9092"}
        if not position:
            spec["tenants"] = [
                {
                    "namespaces": ["payments"],
                    "entities": [{"user": {"prefix": "pay-"}}],
                    "bounds": {"producerByteRate": {"max": 5}},
                }
            ]
        resources.append(
            {
                "apiVersion": "kafka-quotas.io/v1alpha1",
                "kind": "QuotaCluster",
                "metadata": {"name": name, "labels": own},
                "spec": spec,
            }
        )
    return parse("\n---\n".join(map(json.dumps, resources)))


def bare(desired: DesiredState) -> object:
    """A desired state without places and messages about selections."""
    return (
        desired.limits,
        {
            entity: [
                replace(claim, path="", line=0, lines=(0, 0, 0, 0, 0), selections=NO_SELECTIONS)
                for claim in claims
            ]
            for entity, claims in desired.claims.items()
        },
        [(conflict.entity, conflict.key, len(conflict.claims)) for conflict in desired.conflicts],
        desired.documents,
        desired.frozen,
        desired.halted,
    )


@given(st.data(), fleets)
def test_each_cluster_gets_the_limits_of_the_expanded_documents(
    data: st.DataObject, fleet: dict[str, dict[str, str]]
) -> None:
    names = sorted(fleet)
    drawn = data.draw(st.lists(documents(names), max_size=4))
    for index, document in enumerate(drawn):
        document["metadata"]["name"] = f"d{index}"
    project = project_of(fleet)
    selecting = [(f"f{index}", json.dumps(document)) for index, document in enumerate(drawn)]
    separate = [
        (f"f{index}", "\n---\n".join(map(json.dumps, expanded(document, fleet))))
        for index, document in enumerate(drawn)
        if expanded(document, fleet)
    ]
    for cluster in project.clusters:
        first = for_cluster(load_files(selecting, clusters=project.labels), cluster)
        second = for_cluster(load_files(separate, clusters=project.labels), cluster)
        assert [problem.message for problem in first.problems] == [
            problem.message for problem in second.problems
        ]
        desired, expected = merge(first.of(cluster.name)), merge(second.of(cluster.name))
        assert bare(desired) == bare(expected)
        assert len(conflict_problems(desired.conflicts)) == len(
            conflict_problems(expected.conflicts)
        )
        if not desired.conflicts:
            plans = [
                compare(
                    desired=state,
                    owned=OwnershipRecords(cluster_id="x"),
                    live=QuotaState(),
                    rules=Rules(),
                )
                for state in (desired, expected)
            ]
            changes = [
                [(change.entity, change.key, change.after) for change in plan.changes]
                for plan in plans
            ]
            assert changes[0] == changes[1]
