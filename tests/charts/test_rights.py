"""The rights of the chart, asked of a real authorizer: limited to watched namespaces, and no write of a status."""

import pytest

from tests.charts.chart_renderer import VALUES
from tests.charts.release import FULLNAME, Placed, placed
from tests.servers.kube.cluster import KubeCluster

pytestmark = pytest.mark.integration

QUOTAS = "kafka-quotas.io/clientquotas"
CLUSTERS = "kafka-quotas.io/quotaclusters"
LEASES = "coordination.k8s.io/leases"
DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"
EVENTS = "events.k8s.io/events"
READS = ("get", "list", "watch")
WRITES = ("create", "update", "patch", "delete", "deletecollection")

# Rights of the operator by place: its own namespace, a watched one, another one, "default", and cluster-wide.
# A letter for each mode with the right: a = all namespaces, l = a list, f = a list and QuotaClusters in a file.
OWN, WATCHED, OTHER, DEFAULT, EVERYWHERE = "own", "watched", "other", "default", "everywhere"
TABLE: dict[tuple[str, str, str], str] = {
    **{(verb, QUOTAS, WATCHED): "alf" for verb in (*READS, "patch", "release")},
    **{(verb, QUOTAS, OTHER): "a" for verb in (*READS, "patch", "release")},
    **{(verb, QUOTAS, EVERYWHERE): "a" for verb in (*READS, "patch", "release")},
    **{
        (verb, QUOTAS, where): ""
        for verb in ("create", "update", "delete", "deletecollection")
        for where in (WATCHED, EVERYWHERE)
    },
    ("patch", f"{QUOTAS}/status", WATCHED): "alf",
    ("patch", f"{QUOTAS}/status", OTHER): "a",
    ("update", f"{QUOTAS}/status", WATCHED): "",
    **{(verb, CLUSTERS, EVERYWHERE): "al" for verb in READS},
    **{(verb, CLUSTERS, EVERYWHERE): "" for verb in WRITES},
    ("patch", f"{CLUSTERS}/status", EVERYWHERE): "al",
    ("update", f"{CLUSTERS}/status", EVERYWHERE): "",
    ("create", EVENTS, WATCHED): "alf",
    ("create", EVENTS, OTHER): "a",
    ("create", EVENTS, DEFAULT): "al",
    ("create", EVENTS, OWN): "alf",
    # Events of others: they can neither be read nor changed, also by the older API group.
    **{
        (verb, events, where): ""
        for verb in (*READS, "update", "patch", "delete")
        for events in (EVENTS, "/events")
        for where in (WATCHED, OTHER, DEFAULT, OWN)
    },
    **{("create", "/events", where): "" for where in (WATCHED, OTHER, DEFAULT, OWN)},
    **{(verb, "/secrets", OWN): "alf" for verb in READS},
    **{
        (verb, "/secrets", where): ""
        for verb in READS
        for where in (WATCHED, OTHER, DEFAULT, EVERYWHERE)
    },
    **{(verb, "/secrets", OWN): "" for verb in WRITES},
    **{(verb, "/configmaps", OWN): "alf" for verb in ("list", "create", "update")},
    **{
        (verb, "/configmaps", OWN): ""
        for verb in ("get", "watch", "patch", "delete", "deletecollection")
    },
    **{(verb, "/configmaps", WATCHED): "" for verb in (*READS, *WRITES)},
    **{(verb, LEASES, OWN): "alf" for verb in ("create", "get", "update")},
    **{(verb, LEASES, OWN): "" for verb in ("list", "watch", "patch", "delete")},
    ("get", DEFINITIONS, EVERYWHERE): "al",
    **{(verb, DEFINITIONS, EVERYWHERE): "" for verb in ("list", "watch", *WRITES)},
    **{("get", "/namespaces", where): "" for where in (WATCHED, OTHER, DEFAULT, OWN)},
    ("list", "/namespaces", EVERYWHERE): "",
    ("get", "/pods", OWN): "",
    ("create", "/pods/exec", OWN): "",
    ("impersonate", "/users", EVERYWHERE): "",
    ("create", "/serviceaccounts/token", OWN): "",
}
MODES = {"a": (), "l": (), "f": ("--values", str(VALUES["quotaclusters-own-configmap"]))}


def spots(release: Placed) -> dict[str, str]:
    other_text = release.kube.fresh_namespace()
    return {
        OWN: release.home,
        WATCHED: release.watched,
        OTHER: other_text,
        DEFAULT: "default",
        EVERYWHERE: "",
    }


@pytest.mark.parametrize("mode", MODES)
def test_the_rights_of_the_operator_equal_the_table(mode: str, chart_kube: KubeCluster) -> None:
    with placed(chart_kube, *MODES[mode], narrow=mode != "a") as release:
        where = spots(release)

        def may(verb: str, resource: str, spot: str) -> bool:
            name = {
                LEASES: FULLNAME,
                "/namespaces": where[spot],
                DEFINITIONS: "clientquotas.kafka-quotas.io",
            }.get(resource, "")
            name = name if verb not in ("create", "list", "watch") else ""
            return release.may(release.operator, verb, resource, namespace=where[spot], name=name)

        chart_kube.wait_until(lambda: may("patch", QUOTAS, WATCHED), "bind the roles", seconds=240)
        rights = {line: may(*line) for line in TABLE}
    assert rights == {line: mode in modes for line, modes in TABLE.items()}


def test_no_other_definition_may_be_read(chart_kube: KubeCluster) -> None:
    with placed(chart_kube) as release:

        def may_get(name: str) -> bool:
            return release.may(release.operator, "get", DEFINITIONS, namespace="", name=name)

        chart_kube.wait_until(
            lambda: may_get("clientquotas.kafka-quotas.io"), "bind the roles", seconds=240
        )
        assert not may_get("quotaclusters.kafka-quotas.io")
        assert not may_get("")


def test_only_its_own_lease_may_be_changed(chart_kube: KubeCluster) -> None:
    with placed(chart_kube) as release:
        chart_kube.wait_until(
            lambda: release.may(
                release.operator, "update", LEASES, namespace=release.home, name=FULLNAME
            ),
            "bind the roles",
            seconds=240,
        )
        assert not release.may(
            release.operator, "update", LEASES, namespace=release.home, name="another"
        )


@pytest.mark.parametrize("narrow", [False, True], ids=["all", "list"])
def test_the_release_hook_may_release_and_stop_and_keep_records(
    narrow: bool, chart_kube: KubeCluster
) -> None:
    with placed(chart_kube, narrow=narrow) as release:
        other_text = chart_kube.fresh_namespace()

        def may(verb: str, resource: str, namespace: str, name: str = "") -> bool:
            return release.may(release.releaser, verb, resource, namespace=namespace, name=name)

        chart_kube.wait_until(lambda: may("release", QUOTAS, release.watched), "bind", seconds=240)
        assert all(
            may(verb, QUOTAS, release.watched) for verb in ("get", "list", "patch", "release")
        )
        assert may("release", QUOTAS, other_text) is not narrow
        assert not any(
            may(verb, QUOTAS, release.watched) for verb in ("create", "update", "delete")
        )
        assert not may("patch", f"{QUOTAS}/status", release.watched)
        assert may("patch", "apps/deployments/scale", release.home, FULLNAME)
        assert not may("patch", "apps/deployments/scale", release.home, "another")
        assert not may("patch", "apps/deployments", release.home, FULLNAME)
        assert all(may(verb, "/configmaps", release.home) for verb in ("list", "create", "update"))
        assert not may("delete", "/configmaps", release.home)
        assert not may("get", "/secrets", release.home)


def test_users_with_the_clusters_own_roles_may_declare_but_write_neither_status_nor_clusters(
    chart_kube: KubeCluster,
) -> None:
    with placed(chart_kube) as release:
        space = release.watched
        for role in ("view", "edit", "admin"):
            chart_kube.kubectl(
                "create",
                "rolebinding",
                role,
                f"--clusterrole={role}",
                f"--user={role}",
                "-n",
                space,
            )

        def may(user: str, verb: str, resource: str) -> bool:
            namespace = "" if resource.startswith(CLUSTERS) else space
            return release.may(user, verb, resource, namespace=namespace)

        for user in ("view", "edit", "admin"):
            chart_kube.wait_until(
                lambda user=user: may(user, "watch", QUOTAS), "aggregate", seconds=240
            )
        assert [may("view", verb, QUOTAS) for verb in (*READS, *WRITES)] == [True] * 3 + [False] * 5
        for user in ("edit", "admin"):
            assert all(may(user, verb, QUOTAS) for verb in (*READS, *WRITES))
        for user in ("view", "edit", "admin"):
            assert not any(may(user, verb, f"{QUOTAS}/status") for verb in ("patch", "update"))
            assert not any(may(user, verb, CLUSTERS) for verb in (*READS, *WRITES))
            assert not any(may(user, verb, QUOTAS) for verb in ("release", "declare-defaults"))
