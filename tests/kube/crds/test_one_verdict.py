"""The Python rules, the file schemas and the API server agree on every document."""

import copy
import json
import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hypothesis_profiles import count_examples
from tests.kube.crds import documents, judging
from tests.kube.crds.documents import PLACES, Step, put, schema_of
from tests.kube.crds.resources import in_default
from tests.kube.crds.values import own, values_of_interest
from tests.manifest.rules.test_client_quota import ACCEPTED, BROKEN
from tests.manifest.samples import FORMS, cluster, quota
from tests.servers.kube.cluster import KubeCluster
from tools.file_schemas import CRDS

pytestmark = pytest.mark.integration

EXAMPLES = 200
EACH_WAY = 15  # of EXAMPLES: a generator with only one kind of document would prove nothing

FULL_QUOTAS = (
    quota(
        entity={"user": {"name": "alice"}, "clientId": {"name": "app"}},
        limits={
            "producerByteRate": "10Mi",
            "consumerByteRate": 5,
            "requestPercentage": 5.5,
            "controllerMutationRate": 2,
        },
        deletionPolicy="Delete",
        suspend=True,
    ),
    quota(entity={"ip": {"name": "10.0.0.1"}}, limits={"connectionCreationRate": 5}),
)
FULL = {"ClientQuota": FULL_QUOTAS, "QuotaCluster": (cluster(**documents.FULL_CLUSTER),)}
CLUSTER_SPEC = schema_of("QuotaCluster")["properties"]["spec"]
JOINED = frozenset(
    name
    for rule in CLUSTER_SPEC["x-kubernetes-validations"]
    for name in re.findall(r"self\.(\w+)", rule["rule"])
)
"""The fields of the spec of a QuotaCluster that rules compare; every other field is validated separately."""


def around(full: dict[str, Any], field: Step) -> dict[str, Any]:
    """A copy of a valid document; of a QuotaCluster only the fields that rules connect with a field of its spec."""
    document = in_default(full)
    if document["kind"] == "QuotaCluster":
        fields = {*CLUSTER_SPEC["required"], field, *(JOINED if field in JOINED else ())}
        document["spec"] = {
            name: value for name, value in document["spec"].items() if name in fields
        }
    return document


@pytest.mark.parametrize("kind", CRDS)
def test_generated_documents_have_the_same_verdict_in_all_validators(
    kube: KubeCluster, kind: str
) -> None:
    verdicts: Counter[bool] = Counter()

    @settings(max_examples=count_examples(EXAMPLES))
    @given(documents.documents(kind))
    def judged(document: dict[str, Any]) -> None:
        verdicts[judging.judge(kube.api, document)] += 1

    judged()
    assert min(verdicts[True], verdicts[False]) >= EACH_WAY, verdicts


@pytest.mark.parametrize("kind", CRDS)
def test_every_field_has_the_same_verdict_in_all_validators_for_each_of_its_values(
    kube: KubeCluster, kind: str
) -> None:
    """One field of a valid document at a time; fields with the same schema are tested once."""
    verdicts: Counter[bool] = Counter()
    judged: set[str] = set()
    for full in FULL[kind]:
        schemas: set[str] = set()
        for path, node in PLACES[kind]:
            schema = json.dumps([path[-1], node], sort_keys=True)
            if schema in schemas:
                continue
            right = around(full, path[1])
            for value in values_of_interest(node):
                document = copy.deepcopy(right)
                put(document, path, own(value))
                text = json.dumps(document, sort_keys=True)
                if document != right and text not in judged:
                    judged.add(text)
                    schemas.add(schema)
                    verdicts[judging.judge(kube.api, document)] += 1
    assert verdicts[True] > 200, verdicts
    assert verdicts[False] > 500, verdicts


@pytest.mark.parametrize("kind", CRDS)
def test_correct_documents_are_accepted(kube: KubeCluster, kind: str) -> None:
    @settings(max_examples=count_examples(50))
    @given(documents.RIGHT[kind])
    def accepted(document: dict[str, Any]) -> None:
        assert judging.judge(kube.api, document), judging.dry_run(kube.api, document).message

    accepted()


@pytest.mark.parametrize("document", ACCEPTED)
def test_a_document_that_the_python_rules_accept_is_accepted_by_the_server(
    kube: KubeCluster, document: dict[str, Any]
) -> None:
    assert judging.judge(kube.api, in_default(document))


# JSON has no infinities, and decimals above 2^53 lose precision before any rule runs.
UNSENT = ("rate-requestPercentage", "rate-controllerMutationRate")


@pytest.mark.parametrize(
    ("name", "document"), [(name, document) for name, document, _ in BROKEN if name not in UNSENT]
)
def test_a_document_that_breaks_a_python_rule_is_rejected_by_the_server(
    kube: KubeCluster, name: str, document: dict[str, Any]
) -> None:
    assert not judging.judge(kube.api, in_default(document))


def test_the_ten_forms_and_no_other_combination_of_slots_are_accepted(kube: KubeCluster) -> None:
    slots = (None, {"name": "alice"}, {"default": True})
    addresses = (None, {"name": "10.0.0.7"}, {"default": True})
    accepted = []
    for user in slots:
        for client_id in slots:
            for ip in addresses:
                values = {"user": user, "clientId": client_id, "ip": ip}
                entity = {slot: value for slot, value in values.items() if value is not None}
                limits = {"connectionCreationRate": 5} if ip else {"producerByteRate": 5}
                if judging.judge(kube.api, in_default(quota(entity=entity, limits=limits))):
                    accepted.append(json.dumps(entity, sort_keys=True))
    forms = [json.dumps(form, sort_keys=True) for form in FORMS]
    for form in forms:
        assert form.replace('"app"', '"alice"') in accepted
    assert len(accepted) == len(forms)


@given(st.sampled_from((2**53 + 1, 2**60 + 1, 2**63 - 2)))
def test_only_kquota_refuses_decimals_that_float64_cannot_represent(number: int) -> None:
    """The exception for imprecise numbers applies only to them."""
    assert judging.lost(quota(limits={"requestPercentage": number}))
    assert not judging.lost(quota(limits={"producerByteRate": number}))
    assert not judging.lost(quota(limits={"requestPercentage": float(number)}))
