"""Saved plans are applied only while their preconditions hold and the documents are unchanged."""

import json

import pytest

from tests.cli.projects import manifests, project, quota

USER_A = (("user", "a"),)


@pytest.fixture
def saved(kquota, folder, sandbox):
    """A project, and its plan in plan.json."""
    project(folder, sandbox.bootstrap, quota("a"), quota("b"))
    assert kquota("plan", "--out", "plan.json").code == 0
    return folder


def test_a_plan_that_still_matches_is_applied(kquota, saved, sandbox):
    ran = kquota("apply", "plan.json", "--yes")
    assert ran.code == 0
    assert len(sandbox.values()) == 2


def test_a_plan_applied_twice_is_stale(kquota, saved):
    kquota("apply", "plan.json", "--yes")
    assert kquota("apply", "plan.json", "--yes").code == 4


def test_a_changed_live_value_makes_the_plan_stale_and_the_difference_is_printed(
    kquota, saved, sandbox
):
    sandbox.seed({USER_A: {"producer_byte_rate": 5000.0}})
    ran = kquota("apply", "plan.json", "--yes")
    assert ran.code == 4
    assert "user=a producer_byte_rate" in ran.err
    assert "5000" in ran.err
    assert len(sandbox.values()) == 1


def test_a_change_of_another_entity_does_not_make_the_plan_stale(kquota, saved, sandbox):
    sandbox.seed({(("user", "z"),): {"producer_byte_rate": 5000.0}})
    assert kquota("apply", "plan.json", "--yes").code == 0


def test_changed_documents_make_the_plan_stale(kquota, saved, sandbox):
    manifests(saved, quota("a", "{producerByteRate: 20Mi}"), quota("b"))
    ran = kquota("apply", "plan.json", "--yes")
    assert ran.code == 4
    assert "reviewed set 10485760 (10 MiB/s), now set 20971520 (20 MiB/s)" in ran.err
    assert sandbox.values() == {}


def test_an_old_plan_is_stale(kquota, saved, sandbox):
    ran = kquota("apply", "plan.json", "--yes", "--max-age", "1ms")
    assert ran.code == 4
    assert "--max-age" in ran.err
    assert sandbox.values() == {}


def test_another_digest_than_the_approved_one_is_refused(kquota, saved, sandbox):
    assert kquota("apply", "--yes", "--expect-digest", "sha256:0").code == 4
    digest = json.loads((saved / "plan.json").read_text())["digest"]
    assert kquota("apply", "plan.json", "--yes", "--expect-digest", "sha256:0").code == 4
    assert sandbox.values() == {}
    assert kquota("apply", "--yes", "--expect-digest", digest).code == 0


def test_an_edited_plan_is_refused(kquota, saved, sandbox):
    text = (saved / "plan.json").read_text()
    assert '"after":10485760' in text
    (saved / "plan.json").write_text(text.replace('"after":10485760', '"after":10485761'))
    assert kquota("apply", "plan.json", "--yes").code != 0
    (saved / "plan.json").write_text(text[: len(text) // 2])
    ran = kquota("apply", "plan.json", "--yes")
    assert ran.code == 1
    assert "plan.json" in ran.err
    assert sandbox.values() == {}


def test_trust_plan_is_refused_in_ci_and_without_a_terminal(kquota, saved, sandbox, monkeypatch):
    assert kquota("apply", "plan.json", "--yes", "--trust-plan").code == 1
    monkeypatch.setenv("CI", "true")
    ran = kquota("apply", "plan.json", "--yes", "--trust-plan")
    assert ran.code == 1
    assert "refused in CI" in ran.err
    assert sandbox.values() == {}


def test_a_trusted_plan_is_applied_without_its_documents(kquota, saved, sandbox, monkeypatch):
    monkeypatch.setenv("KQUOTA_TRUST_PLAN", "test")
    manifests(saved, quota("z"))
    assert kquota("apply", "plan.json", "--yes", "--trust-plan").code == 0
    assert set(sandbox.values()) == {USER_A, (("user", "b"),)}


def test_a_trusted_plan_is_checked_by_the_guards_and_the_policy(
    kquota, folder, sandbox, monkeypatch
):
    monkeypatch.setenv("KQUOTA_TRUST_PLAN", "test")
    project(folder, sandbox.bootstrap, quota("every", entity="{user: {default: true}}"))
    kquota("plan", "--out", "plan.json", "--allow-defaults")
    assert kquota("apply", "plan.json", "--yes", "--trust-plan").code == 3
    project(
        folder,
        sandbox.bootstrap,
        quota("every", entity="{user: {default: true}}"),
        more="  policy: Observe\n",
    )
    assert kquota("apply", "plan.json", "--yes", "--trust-plan", "--allow-defaults").code == 3
    assert sandbox.values() == {}


def test_trust_plan_requires_a_plan(kquota, saved):
    ran = kquota("apply", "--yes", "--trust-plan")
    assert ran.code == 1
    assert "needs a saved plan" in ran.err
