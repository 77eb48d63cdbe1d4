"""Files to declarations: kinds, lists, clusters, duplicates, counts."""

import pytest

from reconciler.errors import ManifestErrors
from reconciler.manifest.loader import load_files

QUOTA = (
    "apiVersion: kafka-quotas.io/v1alpha1\nkind: ClientQuota\nmetadata: {name: @, namespace: ns}\n"
    "spec: {clusterRef: {name: prod}, entity: {user: {name: alice}}, limits: {producerByteRate: 5}}\n"
)


def quota(name: str, cluster: str = "prod") -> str:
    return QUOTA.replace("@", name).replace("name: prod", f"name: {cluster}")


def list_text(kind: str, api_version: str, *names: str) -> str:
    items = "".join("- " + quota(name).replace("\n", "\n  ").rstrip() + "\n" for name in names)
    return f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{resourceVersion: ''}}\nitems:\n{items}"


def test_a_limit_has_its_line() -> None:
    text = "\n\n" + quota("x").replace(
        "limits: {producerByteRate: 5}",
        "limits: {\n    producerByteRate: 5,\n    requestPercentage: 1}",
    )
    (declaration,) = load_files([("f", text)]).declarations
    assert declaration.lines == (7, 0, 8, 0, 0)


def test_json_is_read_as_yaml() -> None:
    text = '{"apiVersion": "kafka-quotas.io/v1alpha1", "kind": "ClientQuota", "metadata": {"name": "a"}, "spec": {"clusterRef": {"name": "prod"}, "entity": {"user": {"default": true}}, "limits": {"requestPercentage": 50.5}}}'
    assert load_files([("f.json", text)]).checked().declarations[0].limits == (
        None,
        None,
        50.5,
        None,
        None,
    )


STRANGERS = {
    "no mapping": ("- a\n", 1, 1, "must be a mapping"),
    "a text": ("just text\n", 1, 1, "must be a mapping"),
    "no kind": ("apiVersion: v1\n", 1, 1, "kind is missing"),
    "nothing": ("a: b\n", 1, 1, "apiVersion and kind are missing"),
    "kind is a number": ("apiVersion: v1\nkind: 5\n", 2, 1, "kind is missing or no text"),
    "another kind": ("apiVersion: v1\nkind: ConfigMap\n", 2, 7, "is not a manifest"),
    "a cluster": (
        "apiVersion: kafka-quotas.io/v1alpha1\nkind: QuotaCluster\n",
        2,
        7,
        "must be in the project file",
    ),
    "a project": (
        "apiVersion: kafka-quotas.io/v1alpha1\nkind: QuotaProject\n",
        2,
        7,
        "must be in the project file",
    ),
    "another version": (
        "apiVersion: kafka-quotas.io/v1\nkind: ClientQuota\n",
        1,
        13,
        "this version reads kafka-quotas.io/v1alpha1",
    ),
    "another group": (
        "apiVersion: example.org/v1\nkind: ClientQuota\n",
        1,
        13,
        "this version reads",
    ),
    "a near kind": (
        "apiVersion: kafka-quotas.io/v1alpha1\nkind: ClientQuotas\n",
        2,
        7,
        "did you mean ClientQuota?",
    ),
    "an unknown kind": (
        "apiVersion: kafka-quotas.io/v1alpha1\nkind: Topic\n",
        2,
        7,
        "kind 'Topic' is unknown; a manifest has kind ClientQuota",
    ),
    "a list without items": ("apiVersion: v1\nkind: List\n", 1, 1, "items is missing"),
    "an unknown field of a list": (
        "apiVersion: v1\nkind: List\nitems: []\nitem: []\n",
        4,
        1,
        "unknown field item",
    ),
    "a list in a list": (
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: List, items: []}\n",
        4,
        26,
        "is not a manifest",
    ),
    "a stranger in a list": ("apiVersion: v1\nkind: List\nitems: [a]\n", 3, 9, "must be a mapping"),
}


@pytest.mark.parametrize(("text", "line", "column", "words"), STRANGERS.values(), ids=STRANGERS)
def test_a_text_without_a_quota_is_refused_with_a_specific_message(
    text: str, line: int, column: int, words: str
) -> None:
    (problem,) = load_files([("f", text)]).problems
    assert (problem.line, problem.column) == (line, column)
    assert words in problem.message


def test_an_item_of_a_list_must_have_an_api_version() -> None:
    text = list_text("List", "v1", "x").replace(
        "- apiVersion: kafka-quotas.io/v1alpha1\n  kind", "- kind"
    )
    (problem,) = load_files([("f", text)]).problems
    assert "apiVersion is missing" in problem.message


def test_an_unknown_cluster_is_reported_with_the_most_similar_name_and_known_ones_are_read() -> (
    None
):
    loaded = load_files(
        [("f", quota("x", "prd") + "---\n" + quota("w") + "---\n" + quota("z", "other"))],
        clusters={"prod": {}, "dev": {}},
    )
    assert [str(problem) for problem in loaded.problems] == [
        "f:1:1: ns/x: no QuotaCluster has the name 'prd'; did you mean prod?",
        "f:11:1: ns/z: no QuotaCluster has the name 'other'; known: dev, prod",
    ]
    assert [declaration.document for declaration in loaded.of("prod")] == ["ns/w"]
    assert loaded.of("dev") == ()


def test_a_duplicate_document_is_reported_with_both_places() -> None:
    loaded = load_files([("a", quota("x")), ("b", "\n" + quota("x"))])
    assert [str(problem) for problem in loaded.problems] == ["b:2:1: ns/x is also declared at a:1"]


def test_problems_of_all_files_are_sorted_and_unique() -> None:
    problems = load_files([("z", "a: [\n")]).problems
    with pytest.raises(ManifestErrors) as caught:
        load_files([("b", "- x\n"), ("a", "a: !x b\n")], problems=problems).checked()
    assert [problem.path for problem in caught.value.problems] == ["a", "a", "b", "z"]


def test_progress_counts_the_documents_that_are_read() -> None:
    numbers: list[int] = []
    load_files(
        [("a", quota("x") + "---\n" + quota("y")), ("b", quota("z"))], progress=numbers.append
    )
    assert numbers == [1, 2, 3]


FLEET = {"eu-1": {"region": "eu"}, "eu-2": {"region": "eu"}, "us-1": {"region": "us"}}


def selecting(name: str, selector: str = "{matchLabels: {region: eu}}", extra: str = "") -> str:
    return quota(name).replace("clusterRef: {name: prod}", f"clusterSelector: {selector}{extra}")


def test_a_document_that_selects_no_cluster_is_a_warning() -> None:
    loaded = load_files([("f", selecting("x", "{matchLabels: {region: asia}}"))], clusters=FLEET)
    assert not loaded.problems
    assert [warning.message for warning in loaded.warnings] == [
        "ns/x: clusterSelector region=asia selects no cluster"
    ]


def test_an_item_that_selects_no_cluster_is_a_problem_at_its_line() -> None:
    extra = ", clusterLimits: [\n    {clusterRef: {name: eu-3}, limits: {producerByteRate: 9}}]"
    loaded = load_files([("f", selecting("x", extra=extra))], clusters=FLEET)
    (problem,) = loaded.problems
    assert problem.line == 5
    assert problem.message.startswith(
        "ns/x: spec.clusterLimits[0]: no QuotaCluster has the name 'eu-3'; did you mean eu-"
    )


def test_two_documents_of_one_name_are_duplicates_only_in_clusters_that_both_select() -> None:
    texts = [("a", selecting("x")), ("b", quota("x", "us-1"))]
    assert not load_files(texts, clusters=FLEET).problems
    texts.append(("c", quota("x", "eu-2")))
    (problem,) = load_files(texts, clusters=FLEET).problems
    assert (problem.path, problem.message) == ("c", "ns/x is also declared at a:1")


def test_without_labels_selecting_documents_are_listed_separately() -> None:
    loaded = load_files([("f", selecting("x") + "---\n" + quota("w"))]).checked()
    assert [claim.document for claim in loaded.of("")] == ["ns/x"]
    assert [claim.document for claim in loaded.of("prod")] == ["ns/w"]
