"""The documents of one cluster: selected by reference, path, grant and scope."""

import pytest

from reconciler.manifest.loader import load_files
from reconciler.manifest.project.file import parse
from reconciler.manifest.project.selection import for_cluster
from reconciler.quota.policy import DeletionPolicy
from tests.manifest.project.test_file import PROD

TENANTS = (
    PROD
    + """\
  tenants:
    - namespaces: [payments]
      paths: [pay]
      entities: [{user: {prefix: pay-}}]
      bounds: {producerByteRate: {max: 1Mi}}
    - namespaces: [platform]
      entities: [{forms: [defaultUser]}, {user: {prefix: ""}}]
      allow: [Delete, Suspend]
""".replace('{user: {prefix: ""}}', "{user: {prefix: a}}")
)


def quota(
    namespace: str, entity: str, extra: str = "", rate: str = "5", cluster: str = "prod"
) -> str:
    return (
        "apiVersion: kafka-quotas.io/v1alpha1\nkind: ClientQuota\n"
        f"metadata: {{name: a, namespace: {namespace}}}\n"
        f"spec: {{clusterRef: {{name: {cluster}}}, entity: {entity}, limits: {{producerByteRate: {rate}}}{extra}}}\n"
    )


CASES = {
    "granted": ("pay/a.yaml", quota("payments", "{user: {name: pay-1}}"), ""),
    "user with client-id": (
        "pay/a.yaml",
        quota("payments", "{user: {name: pay-1}, clientId: {name: x}}"),
        "",
    ),
    "from another path": (
        "other/a.yaml",
        quota("payments", "{user: {name: pay-1}}"),
        "this path must not contain documents of namespace",
    ),
    "from a path that only begins alike": (
        "pay2/a.yaml",
        quota("payments", "{user: {name: pay-1}}"),
        "this path must not contain documents of namespace",
    ),
    "another user": (
        "pay/a.yaml",
        quota("payments", "{user: {name: alice}}"),
        "no grant for entities of the form user",
    ),
    "the default user": (
        "pay/a.yaml",
        quota("payments", "{user: {default: true}}"),
        "no grant for entities of the form defaultUser",
    ),
    "a bare client-id": (
        "pay/a.yaml",
        quota("payments", "{clientId: {name: pay-1}}"),
        "no grant for entities of the form clientId",
    ),
    "too much": (
        "pay/a.yaml",
        quota("payments", "{user: {name: pay-1}}", rate="2Mi"),
        "above the granted maximum",
    ),
    "a namespace without grant": (
        "a.yaml",
        quota("fraud", "{user: {name: pay-1}}"),
        "namespace fraud has no grant",
    ),
    "a grant without paths": ("a.yaml", quota("platform", "{user: {default: true}}"), ""),
}


@pytest.mark.parametrize(("path", "text", "words"), CASES.values(), ids=CASES)
def test_a_grant_decides_what_a_namespace_may_declare(path: str, text: str, words: str) -> None:
    manifests = for_cluster(load_files([(path, text)]), parse(TENANTS).cluster("prod"))
    assert len(manifests.declarations) == (0 if words else 1)
    assert [words in problem.message for problem in manifests.problems] == ([True] if words else [])
    assert [(problem.path, problem.line) for problem in manifests.problems] == (
        [(path, 1)] if words else []
    )


def test_a_right_that_is_not_granted_is_ignored_and_reported() -> None:
    text = quota("payments", "{user: {name: pay-1}}", ", deletionPolicy: Delete, suspend: true")
    manifests = for_cluster(load_files([("pay/a", text)]), parse(TENANTS).cluster("prod"))
    (declaration,) = manifests.declarations
    assert (declaration.deletion_policy, declaration.suspended) == (DeletionPolicy.RETAIN, False)
    assert [warning.message for warning in manifests.warnings] == [
        "payments/a: deletionPolicy Delete is not granted and acts as Retain",
        "payments/a: suspend is not granted and is ignored",
    ]
    assert not manifests.problems


def test_a_granted_right_applies() -> None:
    text = quota("platform", "{user: {name: a1}}", ", deletionPolicy: Delete, suspend: true")
    (declaration,) = for_cluster(
        load_files([("f", text)]), parse(TENANTS).cluster("prod")
    ).declarations
    assert (declaration.deletion_policy, declaration.suspended) == (DeletionPolicy.DELETE, True)


def test_a_path_of_one_cluster_must_not_contain_documents_of_another() -> None:
    project = parse(
        PROD
        + "---\napiVersion: kafka-quotas.io/v1alpha1\nkind: QuotaProject\nspec: {clusters: [{name: prod, manifests: [prod]}]}\n"
    )
    loaded = load_files([("prod/f", quota("ns", "{user: {name: b}}", cluster="dev"))])
    manifests = for_cluster(loaded, project.cluster("prod"))
    assert [str(problem) for problem in manifests.problems] == [
        "prod/f:1:1: ns/a is for cluster dev, but this path contains manifests of prod"
    ]


def test_a_document_outside_the_scope_is_refused() -> None:
    project = parse(PROD + "  scope: [{user: {prefix: team-}}]\n")
    loaded = load_files(
        [("f", quota("ns", "{user: {name: team-a}}") + "---\n" + quota("ns2", "{user: {name: b}}"))]
    )
    manifests = for_cluster(loaded, project.cluster("prod"))
    assert [declaration.entity[0] for declaration in manifests.declarations] == ["team-a"]
    assert ["outside the scope of prod" in problem.message for problem in manifests.problems] == [
        True
    ]


def test_a_grant_is_compared_with_the_path_relative_to_the_project_file() -> None:
    loaded = load_files([("REV:pay/a.yaml", quota("payments", "{user: {name: pay-1}}"))])
    cluster = parse(TENANTS).cluster("prod")
    assert not for_cluster(loaded, cluster).declarations
    assert for_cluster(loaded, cluster, located=lambda path: path.removeprefix("REV:")).declarations
