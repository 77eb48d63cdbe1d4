"""Saved plans are applied only while they have the effect that was approved."""

import json
import shlex

import pytest

from tests.cli.projects import CLUSTER as OTHER
from tests.cli.projects import manifests, project, quota

USER_A = (("user", "a"),)
CLUSTER = "A" * 22
SYNC = f"  policy: Sync\n  expectedClusterId: {CLUSTER}\n  confirmSync: {CLUSTER}\n"


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


def test_a_plan_of_one_entity_is_applied_with_its_own_selection(kquota, saved, sandbox):
    assert kquota("plan", "--out", "plan.json", "--only", "user=a").code == 0
    ran = kquota("apply", "plan.json", "--yes", "--only", "user=b")
    assert ran.code == 1
    assert "was made with --only user=a, not with --only user=b" in ran.err
    assert sandbox.values() == {}
    assert kquota("apply", "plan.json", "--yes").code == 0
    assert list(sandbox.values()) == [USER_A]


def test_a_plan_of_one_file_is_applied_to_its_limits_alone(kquota, saved, sandbox):
    (saved / "b.yaml").write_text(quota("b"))
    assert kquota("plan", "b.yaml", "--out", "plan.json").code == 0
    assert kquota("apply", "plan.json", "--yes").code == 0
    assert list(sandbox.values()) == [(("user", "b"),)]


def test_a_file_opens_no_guard_unless_its_options_are_typed_again(kquota, saved, sandbox):
    with (saved / "kquota.yaml").open("a") as file:
        file.write("---\n" + OTHER.format(name="other", bootstrap="127.0.0.1:1"))
    manifests(saved, quota("a", "{producerByteRate: 5}"))
    options = ("--allow-small-values", "quotas/all.yaml")
    assert kquota("plan", "--cluster", "prod", "--out", "plan.json", *options).code == 0
    ran = kquota("apply", "plan.json", "--cluster", "prod", "--yes")
    assert ran.code == 3
    assert sandbox.values() == {}
    _, _, command = ran.err.partition("without a question: ")
    program, *words = shlex.split(command)
    assert (program, kquota(*words).code) == ("kquota", 0), "the command works as printed"
    assert list(sandbox.values()) == [USER_A]


@pytest.mark.parametrize(
    "word", ["--help", "--yes", "--out=x", "--only=nonsense", "--max-removals"]
)
def test_words_that_are_no_selection_are_refused(kquota, saved, sandbox, word):
    plan = json.loads((saved / "plan.json").read_text())
    (saved / "plan.json").write_text(json.dumps(plan | {"selection": [word]}))
    ran = kquota("apply", "plan.json", "--yes")
    assert ran.code == 1
    assert "its selection cannot be read" in ran.err
    assert sandbox.values() == {}


def test_a_removal_is_not_made_after_the_default_that_protected_its_clients_is_gone(
    kquota, folder, sandbox
):
    default = {(("user", None),): {"producer_byte_rate": 5e6}}
    sandbox.seed(default)
    project(folder, sandbox.bootstrap, quota("a"), quota("b"), more=SYNC)
    assert kquota("apply", "--yes").code == 0
    manifests(folder, quota("b"))
    allowed = "--allow-newly-unlimited"
    assert kquota("plan", "--out", "plan.json", allowed).code == 0
    digest = json.loads((folder / "plan.json").read_text())["digest"]
    sandbox.seed({(("user", None),): {"producer_byte_rate": None}})
    for words in (("plan.json",), ("--expect-digest", digest)):
        ran = kquota("apply", *words, "--yes", allowed)
        assert ran.code == 4
        assert USER_A in sandbox.values()
    assert (
        "user=<default> producer_byte_rate: live was"
        in kquota("apply", "plan.json", "--yes", allowed).err
    )
