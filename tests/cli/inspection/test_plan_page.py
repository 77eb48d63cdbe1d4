"""`kquota plan --page`: complete pages of the quotas of the sandbox; and the clients that they ask about."""

import re

import pytest

from reconciler.sandbox import Fault
from reconciler.sandbox.broker_rules.alterations import BrokerFailure
from reconciler.sandbox.faults import Refuse
from tests.cli.projects import CLUSTER, PROJECT, project, quota
from tests.render.page_reader import read_page

USER_A = (("user", "a"),)


@pytest.fixture
def prod(folder, sandbox):
    """A project with two documents for the sandbox."""
    project(folder, sandbox.bootstrap, quota("a"), quota("b", "{consumerByteRate: 20Mi}"))
    return folder


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


def test_standard_input_cannot_be_both_manifests_and_clients(kquota, prod):
    ran = kquota("plan", "-", "--principals", "-", stdin="user\na\n")
    assert ran.code == 1
    assert "not both" in ran.err


def test_a_byte_order_mark_of_standard_input_is_no_part_of_a_column(kquota, prod):
    ran = kquota("plan", "--principals", "-", stdin="\ufeffuser\na\n")
    assert (ran.code, ran.err) == (0, "")


def test_without_the_right_to_list_users_a_plan_continues(kquota, prod, sandbox):
    sandbox.fail(Fault(effect=Refuse(failure=BrokerFailure(code=31, message="")), api=50, times=-1))
    ran = kquota("plan")
    assert (ran.code, ran.err) == (0, "")
