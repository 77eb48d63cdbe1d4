"""Tests of the laws of the operator's login: each detects its violation, and lawful use breaks none."""

import json
from itertools import count

import pytest

from reconciler.base.http.messages import HttpResponse
from tests.simulation.kube.logins import GRANT, LoginLaws, reveals_password
from tests.simulation.kube.operator_world import OperatorWorld
from tests.simulation.laws import LATE_SECONDS, LawBroken
from tests.simulation.scenario import scenario_of


def secret(grant: str, status: int = 200) -> HttpResponse:
    body = {"metadata": {"annotations": {GRANT: grant}}}
    return HttpResponse(status=status, body=json.dumps(body).encode())


def test_alterations_with_a_withdrawn_secret_are_reported() -> None:
    laws = LoginLaws()
    laws.secret_read("operator-a-1", secret("other, prod"))
    laws.alters("operator-a-1")
    laws.secret_read("operator-a-1", secret("other"))
    laws.alters("operator-b-1")
    with pytest.raises(LawBroken, match="a Secret that is withdrawn"):
        laws.alters("operator-a-1")


def test_a_secret_that_could_not_be_read_or_is_granted_again_permits_alterations() -> None:
    laws = LoginLaws()
    laws.secret_read("operator-a-1", secret("", status=404))
    laws.alters("operator-a-1")
    laws.secret_read("operator-a-1", secret("other"))
    laws.secret_read("operator-a-1", secret("prod"))
    laws.alters("operator-a-1")


def test_a_write_with_a_replaced_login_is_reported() -> None:
    laws = LoginLaws()
    laws.requested(100.0, "operator-a-1", "operator-1")
    laws.requested(200.0, "operator-a-1", "operator-2")
    laws.committed(200.0 + LATE_SECONDS, "operator-a-1", "operator-1")
    laws.committed(900.0, "operator-a-1", "operator-2")
    laws.committed(900.0, "operator-b-1", "operator-1")
    with pytest.raises(LawBroken, match="a write with a replaced login"):
        laws.committed(201.0 + LATE_SECONDS, "operator-a-1", "operator-1")


def test_a_password_in_an_object_is_reported() -> None:
    assert reveals_password({"status": {"message": "password-of-operator-3-4 was refused"}})
    assert not reveals_password({"status": {"message": "operator-3 was refused"}})


def test_a_login_that_is_not_used_after_the_faults_is_a_difference() -> None:
    for seed in count(1):
        world = OperatorWorld(scenario_of(seed, "operator"))
        if world.logins is not None:
            break
        world._close()
    assert world.logins is not None
    world.login_laws.requested(0.0, "operator-a-1", "operator-1")
    assert "the login is" not in world._problem()
    _ = world.logins.rotate()
    assert world._problem() == "the login is operator-1, not operator-2"
    world._close()
