"""`kquota plan --page`: complete pages of the quotas of the sandbox; and the clients that they ask about."""

import json
import re

import pytest

from reconciler.sandbox import Fault
from reconciler.sandbox.broker_rules.alterations import BrokerFailure
from reconciler.sandbox.faults import Refuse
from tests.cli.projects import CLUSTER, PROJECT, manifests, project, quota
from tests.render.page_reader import read_page

USER_A = (("user", "a"),)


@pytest.fixture
def plan_page(kquota, folder):
    """`plan_page("--offline")`: plan with a page; returns the exit code and the page."""

    def run(*words: str):
        code = kquota("plan", "--page", "plan.html", *words).code
        return code, read_page((folder / "plan.html").read_text())

    return run


def test_drift_shows_the_time_of_its_first_observation(kquota, plan_page, prod, sandbox):
    kquota("apply", "--yes")
    sandbox.seed({USER_A: {"producer_byte_rate": 5000.0}})
    kquota("drift")
    (since,) = plan_page()[1].column("drift", "Since")
    assert re.fullmatch(r"since \d+ s", *since)


def test_several_clusters_are_one_page(plan_page, folder, sandbox):
    project(folder, sandbox.bootstrap, quota("a"))
    (folder / "kquota.yaml").write_text(
        PROJECT
        + "".join(
            "---\n" + CLUSTER.format(name=name, bootstrap=sandbox.bootstrap)
            for name in ("prod", "second")
        )
    )
    _, page = plan_page("--all")
    assert page.all_texts("summary") == ["Plan for prod", "Plan for second"]


# ---- who is asked about -----------------------------------------------------------------------


def test_clients_of_a_list_are_resolved_in_addition_to_those_of_the_cluster(
    kquota, plan_page, prod
):
    (prod / "clients.csv").write_text("user,client_id\na,web\nzoe,\n")
    manifests(prod, quota("every", entity="{user: {default: true}}"), quota("a"))
    plan = json.loads(
        kquota("plan", "--format", "json", "--allow-defaults", "--principals", "clients.csv").out
    )
    affected = {(row["user"], row["clientId"]): row for row in plan["impact"]["affected"]}
    assert affected["zoe", None]["after"]["level"] == 6
    assert affected["a", "web"]["after"]["level"] == 3
    assert affected["zoe", None]["direction"] == "newly limited"
    _, page = plan_page("--allow-defaults", "--principals", "clients.csv")
    clients = [cell[0] for cell in page.column("clients", "Client and key")]
    assert sorted(set(clients)) == ["user=a,client-id=web", "user=zoe"]
    assert plan["impact"]["known"] == 2


def test_standard_input_cannot_be_both_manifests_and_clients(kquota, prod):
    ran = kquota("plan", "-", "--principals", "-", stdin="user\na\n")
    assert ran.code == 1
    assert "not both" in ran.err


def test_a_byte_order_mark_of_standard_input_is_no_part_of_a_column(kquota, prod):
    ran = kquota("plan", "--principals", "-", stdin="\ufeffuser\na\n")
    assert (ran.code, ran.err) == (0, "")


def test_a_file_without_clients_is_refused_before_the_cluster_is_contacted(kquota, prod):
    (prod / "clients.csv").write_text("name\na\n")
    ran = kquota("plan", "--principals", "clients.csv")
    assert ran.code == 1
    assert "clients.csv:1: the first line must list columns" in ran.err


def test_without_the_right_to_list_users_a_plan_continues(kquota, prod, sandbox):
    sandbox.fail(Fault(effect=Refuse(failure=BrokerFailure(code=31, message="")), api=50, times=-1))
    ran = kquota("plan")
    assert (ran.code, ran.err) == (0, "")
