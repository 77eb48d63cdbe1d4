"""The health that kstatus and Argo CD compute for the operator's statuses, one row of the table each."""

from pathlib import Path

import pytest

from reconciler.kube.status.reasons import Reason
from tests.kube.scenarios import CLUSTERS, DOCUMENTS
from tests.servers.kube import kstatus, lua

pytestmark = pytest.mark.integration

SCRIPT = (
    Path(__file__).parents[2] / "charts/kafka-quota-reconciler/files/argocd/health.lua"
).read_text()

CASES = [
    *(("ClientQuota", reason, make) for reason, make in DOCUMENTS.items()),
    *(("QuotaCluster", reason, make) for reason, make in CLUSTERS.items()),
]
NAMES = [f"{kind} {reason}" for kind, reason, _ in CASES]


@pytest.fixture(scope="module")
def objects():
    return {(kind, reason): make() for kind, reason, make in CASES}


@pytest.fixture(scope="module")
def computed(objects):
    results = kstatus.compute(objects.values())
    return dict(zip(objects, results, strict=True))


@pytest.mark.parametrize(("kind", "reason"), [case[:2] for case in CASES], ids=NAMES)
def test_kstatus_computes_the_status_of_the_table(computed, kind, reason):
    assert computed[kind, reason][0] == reason.kstatus


@pytest.mark.parametrize(("kind", "reason"), [case[:2] for case in CASES], ids=NAMES)
def test_argo_cd_computes_the_health_of_the_table(objects, kind, reason):
    assert lua.health(SCRIPT, objects[kind, reason])[0] == reason.argo


def test_a_status_of_an_older_generation_is_in_progress(objects):
    obj = objects["ClientQuota", Reason.SYNCED]
    newer = {**obj, "metadata": {**obj["metadata"], "generation": 2}}
    assert kstatus.compute([newer])[0][0] == "InProgress"
    assert lua.health(SCRIPT, newer)[0] == "Progressing"


def test_without_a_status_every_health_check_waits(objects):
    obj = {**objects["ClientQuota", Reason.SYNCED], "status": {}}
    assert lua.health(SCRIPT, obj)[0] == "Progressing"


def test_argo_cd_shows_the_message_of_the_condition(objects):
    _, message = lua.health(SCRIPT, objects["ClientQuota", Reason.BROKER_REJECTED])
    assert "no such thing" in message


def test_every_reason_is_a_case():
    assert {reason for _, reason, _ in CASES} == set(Reason)
