"""The policy of the trusted project file: what it refuses, where it is reported, and which file applies."""

import json
import subprocess

import pytest

from tests.cli.projects import manifests, project, quota

GUARDS = """\
  guards:
    protectDefaults: false
    protected:
      - user: {prefix: admin-}
        reason: the platform team's
    bounds:
      - user: {prefix: etl-}
        limits:
          producerByteRate: {min: 1Mi, max: 20Mi}
"""
DEFAULT = quota("every", entity="{user: {default: true}}")


@pytest.fixture
def prod(folder, sandbox):
    project(folder, sandbox.bootstrap, quota("a"), more=GUARDS)
    return folder


def violations(ran) -> dict[str, dict]:
    return {violation["guard"]: violation for violation in json.loads(ran.out)["violations"]}


def test_every_violation_of_the_policy_is_reported_with_file_and_line_and_exits_3(
    kquota, prod, sandbox
):
    manifests(prod, quota("admin-root"), DEFAULT, quota("etl-one", "{producerByteRate: 30Mi}"))
    ran = kquota("plan", "--format", "json")
    assert ran.code == 3
    by_guard = violations(ran)
    assert set(by_guard) == {"protected", "bounds.range"}
    assert (by_guard["protected"]["file"], by_guard["protected"]["line"]) == ("quotas/all.yaml", 10)
    assert by_guard["protected"]["message"] == "create on a protected entity: the platform team's"
    assert by_guard["bounds.range"]["line"] == 30
    text = kquota("plan")
    assert text.code == 3
    assert "quotas/all.yaml:10: user=admin-root: create on a protected entity" in text.out
    assert kquota("apply", "--yes").code == 3
    assert sandbox.values() == {}


def test_a_protected_limit_remains_when_its_document_is_removed(kquota, prod, sandbox):
    project(prod, sandbox.bootstrap, quota("admin-root"), quota("a"))
    assert kquota("apply", "--yes").code == 0
    project(prod, sandbox.bootstrap, quota("a"), more=GUARDS)
    manifests(prod, quota("admin-root", "{consumerByteRate: 1Mi}"), quota("a"))
    ran = kquota("plan", "--format", "json")
    assert ran.code == 3
    messages = sorted(violation["message"] for violation in json.loads(ran.out)["violations"])
    assert messages == [
        "create on a protected entity: the platform team's",
        "remove on a protected entity: the platform team's",
    ]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("  scope: [{user: {prefix: team-}}]\n", "outside the scope of prod"),
        ("  tenants: [{namespaces: [team], entities: [{user: {prefix: team-}}]}]\n", "no grant"),
    ],
)
@pytest.mark.parametrize("command", [("validate",), ("plan",), ("apply", "--yes")])
def test_a_document_that_scope_or_grants_refuse_exits_3_and_1_beside_a_wrong_file(
    kquota, folder, sandbox, *, command, more, words
):
    project(folder, sandbox.bootstrap, quota("team-a"), quota("b"), more=more)
    ran = kquota(*command)
    assert ran.code == 3
    assert f"quotas/all.yaml:12:1: {'refused: ' if command[0] == 'validate' else ''}team/b" in (
        text := ran.out + ran.err
    )
    assert words in text
    (folder / "quotas" / "wrong.yaml").write_text(quota("c", "{producerByteRate: 20MB}"))
    assert kquota(*command).code == 1
    assert sandbox.values() == {}


STRICT_DEFAULT = quota("every", "{producerByteRate: 1Mi}", entity="{user: {default: true}}")
OPEN_DEFAULTS = "  guards: {protectDefaults: false}\n"


APPROVALS = {
    "a bound for the user": """\
  guards:
    protectDefaults: false
    bounds:
      - user: {exact: b}
        limits: {producerByteRate: {min: 100Mi, max: 500Mi}}
""",
    "a bound of the tenant": """\
  guards: {protectDefaults: false}
  tenants:
    - namespaces: [team]
      entities: [{user: {prefix: ""}}, {forms: [defaultUser]}]
      bounds: {producerByteRate: {min: 1Mi, max: 500Mi}}
""",
}


@pytest.mark.parametrize("approval", APPROVALS.values(), ids=APPROVALS)
def test_a_bound_at_the_trusted_revision_approves_the_value_and_not_its_unit_slip(
    kquota, folder, sandbox, approval
):
    project(folder, sandbox.bootstrap, STRICT_DEFAULT, more=OPEN_DEFAULTS)
    assert kquota("apply", "--yes").code == 0
    large = quota("b", "{producerByteRate: 200Mi}")
    manifests(folder, STRICT_DEFAULT, large)
    assert kquota("plan").code == 3
    project(folder, sandbox.bootstrap, STRICT_DEFAULT, large, more=approval)
    assert kquota("apply", "--yes").code == 0
    manifests(folder, STRICT_DEFAULT, quota("b", "{producerByteRate: 200Gi}"))
    assert kquota("plan").code != 0


def test_an_approval_counts_only_from_the_base_revision(kquota, folder, sandbox):
    large = quota("b", "{producerByteRate: 200Mi}")
    project(folder, sandbox.bootstrap, STRICT_DEFAULT, more=OPEN_DEFAULTS)
    assert kquota("apply", "--yes").code == 0
    git("init", "-q", "-b", "main")
    git("add", "kquota.yaml")
    git("commit", "-q", "-m", "base")
    approval = APPROVALS["a bound for the user"]
    project(folder, sandbox.bootstrap, STRICT_DEFAULT, large, more=approval)
    ran = kquota("plan", "--config-from", "refs/heads/main", "--format", "json")
    assert (ran.code, set(violations(ran))) == (3, {"maxChangeFactor"})
    git("commit", "-q", "-a", "-m", "approved")
    assert kquota("plan", "--config-from", "refs/heads/main").code == 0


def git(*arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
        check=True,
        capture_output=True,
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("    protected: [{reason: r}]\n", "at least one of forms, user, clientId and ip"),
        ("    protected: [{user: {prefix: a}, because: r}]\n", "because"),
        ("    protectd: []\n", "protectd"),
    ],
)
def test_a_policy_with_a_typo_is_an_error_with_its_place(kquota, folder, sandbox, wrong, message):
    project(folder, sandbox.bootstrap, quota("a"), more="  guards:\n" + wrong)
    ran = kquota("plan")
    assert ran.code == 1
    assert "kquota.yaml:" in ran.err
    assert message in ran.err
    assert sandbox.values() == {}
