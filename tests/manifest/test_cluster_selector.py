"""Selectors of clusters: the selected clusters, and the limits of a document in each cluster."""

from typing import Any

import pytest

from reconciler.manifest.cluster_selector import ClusterSelector, LabelRequirement, SelectorOperator
from reconciler.manifest.document import from_resource
from reconciler.quota.keys import Key
from tests.manifest.samples import quota

CASES = {
    "env=prod": ("In", ("prod",), {"env": "prod"}, {"env": "dev"}),
    "env in (prod,test)": ("In", ("prod", "test"), {"env": "test"}, {}),
    "env notin (prod)": ("NotIn", ("prod",), {}, {"env": "prod"}),
    "env": ("Exists", (), {"env": ""}, {"environment": "prod"}),
    "!env": ("DoesNotExist", (), {"other": "x"}, {"env": ""}),
}


@pytest.mark.parametrize(("text", "case"), CASES.items(), ids=CASES)
def test_a_requirement_matches_as_in_kubernetes(text: str, case: Any) -> None:
    operator, values, selected, refused = case
    requirement = LabelRequirement("env", SelectorOperator(operator), values)
    assert requirement.matches(selected)
    assert not requirement.matches(refused)
    assert str(ClusterSelector((requirement,))) == text


def test_a_document_that_names_its_cluster_ignores_labels() -> None:
    document = from_resource(quota())
    assert dict(document.declarations({"dev": {}})) == {"prod": document.declaration}
    assert document.declaration.selection_of(Key.PRODUCER_BYTE_RATE) == ""
