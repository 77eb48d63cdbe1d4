"""Tests of the programs with kstatus and Argo CD's Lua."""

import pytest

from tests.servers.kube import kstatus, lua
from tests.servers.kube.go_tools import GoToolFailed

pytestmark = pytest.mark.integration

SCRIPT = """
local found = { status = "Progressing", message = "no status yet" }
if obj.status ~= nil and obj.status.observedGeneration == obj.metadata.generation then
  for _, condition in ipairs(obj.status.conditions) do
    if condition.type == "Ready" and condition.status == "True" then
      found.status = "Healthy"
      found.message = condition.message
    end
  end
end
return found
"""


def resource(*conditions: tuple[str, str], observed: int = 3, **metadata: object) -> dict:
    return {
        "apiVersion": "kafka-quotas.io/v1alpha1",
        "kind": "ClientQuota",
        "metadata": {"name": "one", "generation": 3, **metadata},
        "status": {
            "observedGeneration": observed,
            "conditions": [
                {"type": kind, "status": status, "reason": "Because", "message": f"{kind} it is"}
                for kind, status in conditions
            ],
        },
    }


def test_kstatus_answers_for_each_object_in_order() -> None:
    statuses = kstatus.compute(
        [
            resource(("Ready", "True")),
            resource(("Ready", "True"), observed=2),
            resource(("Ready", "False"), ("Reconciling", "True")),
            resource(("Ready", "False"), ("Stalled", "True")),
            resource(("Ready", "Unknown")),
            resource(deletionTimestamp="2026-01-01T00:00:00Z"),
        ]
    )
    assert [status for status, _ in statuses] == [
        "Current",
        "InProgress",
        "InProgress",
        "Failed",
        "InProgress",
        "Terminating",
    ]
    assert statuses[3][1] == "Stalled it is"


def test_kstatus_refuses_invalid_objects() -> None:
    with pytest.raises(GoToolFailed, match=r"object 1: .*'Kind' is missing"):
        kstatus.compute([resource(), {"metadata": {}}])


def test_a_health_script_receives_the_object_and_its_generation() -> None:
    assert lua.health(SCRIPT, resource(("Ready", "True"))) == ("Healthy", "Ready it is")
    assert lua.health(SCRIPT, resource(observed=1)) == ("Progressing", "no status yet")


def test_a_status_unknown_to_argo_is_unknown() -> None:
    unknown = ("Unknown", "Lua returned an invalid health status")
    assert lua.health('return { status = "Fine" }', {}) == unknown


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("return 1", "the script returned a number, not a table"),
        ("return { status = 7 }", "status is a number, not a string"),
        ("while true do end", "context deadline exceeded"),
        ("return {", "syntax error"),
        ('return { status = string.lower("Healthy") }', "attempt to index a non-table object"),
        ("return obj.status.conditions", "attempt to index a non-table object"),
    ],
)
def test_a_health_result_that_argo_would_refuse_is_refused(script: str, reason: str) -> None:
    with pytest.raises(GoToolFailed, match=reason):
        lua.health(script, {})


def test_standard_libraries_of_lua_are_available_on_request() -> None:
    script = 'return { status = string.gsub("healthy", "h", "H", 1) }'
    assert lua.health(script, {}, open_libs=True) == ("Healthy", "")
