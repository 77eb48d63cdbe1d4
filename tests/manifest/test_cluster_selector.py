"""Selectors of clusters: the selected clusters, and the limits of a document in each cluster."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.manifest.cluster_selector import (
    ClusterSelector,
    LabelRequirement,
    SelectorOperator,
    selection_labels,
)
from reconciler.manifest.document import ClientQuota, from_resource
from reconciler.quota.keys import Key
from tests.manifest.samples import quota, selecting

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


def test_an_empty_selector_selects_every_cluster() -> None:
    assert ClusterSelector().matches({})
    assert str(ClusterSelector()) == "every cluster"


def test_a_cluster_can_be_selected_by_its_name_like_by_a_label() -> None:
    requirement = LabelRequirement("kafka-quotas.io/name", SelectorOperator.NOT_IN, ("eu-1",))
    selected = [
        name for name in ("eu-1", "eu-2") if requirement.matches(selection_labels(name, {}))
    ]
    assert selected == ["eu-2"]


def in_cluster(document: ClientQuota, name: str, **labels: str) -> Any:
    declarations = dict(document.declarations({name: selection_labels(name, labels)}))
    return declarations.get(name)


DOCUMENT = from_resource(
    selecting(
        limits={"producerByteRate": 5, "requestPercentage": 50},
        clusterLimits=[
            {
                "clusterSelector": {"matchLabels": {"size": "large"}},
                "limits": {"producerByteRate": 7, "consumerByteRate": 7},
            },
            {"clusterRef": {"name": "eu-1"}, "limits": {"producerByteRate": 9}},
        ],
    )
)


def test_general_limits_apply_where_no_item_matches() -> None:
    declaration = in_cluster(DOCUMENT, "us-1", tier="prod")
    assert declaration.limits == (5.0, None, 50.0, None, None)
    assert declaration.selection_of(Key.PRODUCER_BYTE_RATE) == "tier=prod"
    assert declaration.selection_of(Key.CONSUMER_BYTE_RATE) == ""


def test_a_later_item_replaces_the_values_of_an_earlier_one_key_by_key() -> None:
    declaration = in_cluster(DOCUMENT, "eu-1", tier="prod", size="large")
    assert declaration.limits == (9.0, 7.0, 50.0, None, None)
    assert declaration.selections == (
        "tier=prod; clusterLimits[1] eu-1",
        "tier=prod; clusterLimits[0] size=large",
        "tier=prod",
        "",
        "",
    )


def test_an_item_selects_only_clusters_that_the_document_selects() -> None:
    assert in_cluster(DOCUMENT, "eu-1", size="large") is None


def test_a_document_that_names_its_cluster_ignores_labels() -> None:
    document = from_resource(quota())
    assert dict(document.declarations({"dev": {}})) == {"prod": document.declaration}
    assert document.declaration.selection_of(Key.PRODUCER_BYTE_RATE) == ""


labels = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"))
requirements = st.one_of(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(("In", "NotIn")),
        st.lists(st.sampled_from("xy"), min_size=1),
    ),
    st.tuples(st.sampled_from("abc"), st.sampled_from(("Exists", "DoesNotExist")), st.just([])),
)


@given(labels, st.lists(requirements))
def test_a_selector_is_the_conjunction_of_its_requirements(
    present: dict[str, str], parts: list[tuple[str, str, list[str]]]
) -> None:
    selector = ClusterSelector(
        tuple(
            LabelRequirement(key, SelectorOperator(word), tuple(values))
            for key, word, values in parts
        )
    )
    expected = all(
        {
            "In": present.get(key) in values,
            "NotIn": present.get(key) not in values,
            "Exists": key in present,
            "DoesNotExist": key not in present,
        }[word]
        for key, word, values in parts
    )
    assert selector.matches(present) is expected
