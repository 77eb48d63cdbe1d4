"""Malicious commits: their configuration is not trusted, their hosts are not contacted, neither in plan nor apply."""

import json
import shlex
import shutil
import ssl
from pathlib import Path

import pytest

from reconciler.sandbox import SandboxSettings
from reconciler.sandbox.settings import Listener as Door
from reconciler.sandbox.settings import ListenerProtocol
from tests.cli.brokers import SandboxThread
from tests.cli.listeners import Listener
from tests.cli.projects import manifests, project, quota
from tests.cli.test_revisions import git
from tests.servers.certs import Authority

VICTIM = (("user", "victim"),)
BASE = ("--config-from", "refs/heads/base")


@pytest.fixture
def attacker():
    with Listener() as running:
        yield running


def committed(folder: Path) -> None:
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-q", "-m", "x")


def base_of(folder: Path) -> None:
    """Commit the current state as the base; later commits are the head."""
    git(folder, "init", "-q", "-b", "head")
    committed(folder)
    git(folder, "branch", "base")


# -- the trusted CA ---------------------------------------------------------------------------------------


def tls_sandbox(authority: Authority) -> SandboxThread:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.server("broker").bundle)
    door = Door(
        name="SASL_SSL", protocol=ListenerProtocol.SASL_SSL, tls=context, mechanisms=("PLAIN",)
    )
    return SandboxThread(SandboxSettings(listeners=(door,), users={"planner": "pw"}))


def test_the_head_does_not_choose_the_authority_that_signs_for_brokers(
    kquota, folder, tmp_path_factory
):
    good = Authority.make(tmp_path_factory.mktemp("good"))
    evil = Authority.make(tmp_path_factory.mktemp("evil"))
    login = (
        "  properties: {security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.username: planner,"
        " sasl.password: pw, ssl.truststore.location: ca.pem}\n"
    )
    with tls_sandbox(evil) as man_in_the_middle, tls_sandbox(good) as broker:
        project(folder, man_in_the_middle.bootstrap, quota("a"), more=login)
        (folder / "ca.pem").write_text(good.certificate_file.read_text())
        base_of(folder)
        (folder / "ca.pem").write_text(evil.certificate_file.read_text())
        committed(folder)
        ran = kquota("plan", *BASE)
        assert ran.code == 1
        assert "not signed by a trusted authority" in ran.err
        assert kquota("plan").code == 0  # without a trusted revision the checkout is trusted
        project(folder, broker.bootstrap, quota("a"), more=login)
        (folder / "ca.pem").write_text(good.certificate_file.read_text())
        committed(folder)
        git(folder, "branch", "-f", "base")
        (folder / "ca.pem").unlink()
        assert kquota("plan", *BASE).code == 0


# -- records ------------------------------------------------------------------------------------------------


@pytest.fixture
def forged(kquota, folder, sandbox) -> str:
    """Records that claim the quota of another owner; the project does not declare it, and nothing else was applied."""
    project(folder, sandbox.bootstrap, quota("victim", more="  deletionPolicy: Delete\n"))
    assert kquota("apply", "--yes").code == 0
    text = (folder / ".kquota" / "inventory.json").read_text()
    for path in sorted((folder / ".kquota").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (folder / ".kquota").rmdir()
    manifests(folder, quota("a"))
    (folder / ".gitignore").write_text(".kquota/\n")
    base_of(folder)
    return text


def brought(folder: Path, text: str, how: str) -> None:
    """Commit the forged records, directly or behind links."""
    evil = folder / "evil"
    match how:
        case "a file":
            (folder / ".kquota").mkdir()
            (folder / ".kquota" / "inventory.json").write_text(text)
        case "a link":
            (folder / ".kquota").mkdir()
            evil.write_text(text)
            (folder / ".kquota" / "inventory.json").symlink_to("../evil")
        case _:
            evil.mkdir()
            (evil / "inventory.json").write_text(text)
            (folder / ".kquota").symlink_to("evil")
    committed(folder)


WAYS = pytest.mark.parametrize("how", ["a file", "a link", "a folder that is a link"])


@WAYS
def test_records_of_the_head_do_not_make_a_quota_owned(kquota, folder, sandbox, forged, how):
    brought(folder, forged, how)
    ran = kquota("plan", *BASE, "--format", "json")
    assert ran.code == 0, ran.err
    plan = json.loads(ran.out)
    assert plan["counts"]["remove"] == plan["counts"]["owned"] == 0
    assert "victim" not in json.dumps(plan["changes"])
    assert ".kquota/inventory.json lies in the checkout" in ran.err
    assert "gitRef" in ran.err
    drift = kquota("drift", *BASE, "--read-only", "--format", "json")
    assert json.loads(drift.out)["recordsKnown"] is False
    for command in (("drift", *BASE), ("apply", *BASE, "--yes")):
        ran = kquota(*command)
        assert ran.code == 1
        assert "cannot be written: .kquota/inventory.json lies in the checkout" in ran.err
    assert sandbox.values()[VICTIM]


@WAYS
def test_records_of_a_commit_are_refused_after_the_merge_too(kquota, folder, forged, how):
    brought(folder, forged, how)
    text = (folder / "kquota.yaml").read_text()
    (folder / "kquota.yaml").write_text(text + "  expectedClusterId: AAAAAAAAAAAAAAAAAAAAAA\n")
    for command in (
        "plan",
        "plan --offline",
        "apply --yes",
        "drift",
        "override user=a producer_byte_rate=1Mi --for 1h --reason x --yes",
    ):
        ran = kquota(*command.split())
        assert ran.code == 1, command
        assert "git tracks " in ran.err
        assert "rm -r --cached" in ran.err


@WAYS
def test_the_printed_command_resolves_the_refusal_also_in_a_folder_of_the_repository(
    kquota, folder, sandbox, monkeypatch, how
):
    git(folder, "init", "-q")
    below = folder / "the kafka part"
    below.mkdir()
    project(below, sandbox.bootstrap, quota("a"))
    monkeypatch.chdir(below)
    assert kquota("apply", "--yes").code == 0
    records = (below / ".kquota" / "inventory.json").read_text()
    shutil.rmtree(below / ".kquota")
    brought(below, records, how)
    refused = kquota("plan")
    assert refused.code == 1
    printed = refused.err.partition(" run: ")[2].partition("; pipelines")[0]
    git(below, *shlex.split(printed)[1:])
    ran = kquota("plan")
    assert ran.code == 0
    assert "so nothing is removed" not in ran.out


def test_records_that_kquota_keeps_in_an_ignored_folder_are_trusted(
    kquota, folder, sandbox, forged
):
    assert kquota("apply", "--yes").code == 0
    manifests(folder)
    assert (folder / ".kquota" / "inventory.json").exists()
    assert "1 managed quota key" in kquota("drift").out


def test_records_at_the_trusted_revision_and_outside_the_checkout_are_trusted(
    kquota, folder, sandbox, forged, tmp_path_factory
):
    git(folder, "checkout", "-q", "base")
    brought(folder, forged, "a file")
    git(folder, "checkout", "-q", "-b", "other")
    (folder / ".kquota" / "inventory.json").write_text("EVIL")
    committed(folder)
    assert json.loads(kquota("plan", *BASE, "--format", "json").out)["counts"]["remove"] == 1
    outside = tmp_path_factory.mktemp("outside") / "inventory.json"
    outside.write_text(forged)
    text = (folder / "kquota.yaml").read_text()
    place = f"  manifests: [quotas]\n  inventory: {{file: {outside}}}\n"
    (folder / "kquota.yaml").write_text(text.replace("  manifests: [quotas]\n", place))
    committed(folder)
    git(folder, "branch", "-f", "base")
    assert json.loads(kquota("plan", *BASE, "--format", "json").out)["counts"]["remove"] == 1


@pytest.mark.parametrize(
    "name", ["audit.jsonl", "outcomes", ".inventory.json.AAAAAAAAAAAAAAAAAAAAAA.lock"]
)
def test_a_committed_link_does_not_choose_where_files_are_written(
    kquota, folder, sandbox, forged, name
):
    victim = folder.parent / f"{folder.name}-victim"
    if name == "outcomes":
        victim.mkdir()
        for number in range(60):
            (victim / f"{number:02}.json").write_text("precious")
    else:
        victim.write_text("precious")
    (folder / ".kquota").mkdir()
    (folder / ".kquota" / name).symlink_to(victim)
    committed(folder)
    ran = kquota("apply", "--yes")
    assert "git tracks " in ran.err
    if name == "outcomes":
        assert len(list(victim.iterdir())) == 60
    else:
        assert ran.code == 1
        assert victim.read_text() == "precious"


# -- contacted hosts ------------------------------------------------------------------------------------------


def evil_project(folder: Path, attacker: Listener) -> None:
    more = (
        f"  expectedClusterId: AAAAAAAAAAAAAAAAAAAAAA\n"
        f"  telemetry: {{evidenceUri: 'http://{attacker.address}/ssrf'}}\n"
    )
    project(folder, attacker.address, quota("a"), more=more)


def test_evidence_in_the_checkout_is_refused(kquota, folder, sandbox):
    project(folder, sandbox.bootstrap, quota("a"), more="  telemetry: {evidenceUri: evidence}\n")
    base_of(folder)
    for name in (".", "link"):
        if name == "link":
            (folder.parent / f"{folder.name}-link").symlink_to(folder / "evidence")
            text = (folder / "kquota.yaml").read_text()
            (folder / "kquota.yaml").write_text(
                text.replace("evidenceUri: evidence", f"evidenceUri: 'file://{folder}-link'")
            )
            committed(folder)
            git(folder, "branch", "-f", "base")
        ran = kquota("plan", *BASE)
        assert ran.code == 1
        assert "checkout" in ran.err
        assert kquota("plan", *BASE, "--no-evidence").code == 0


@pytest.mark.parametrize("more", [(), ("--evidence=auto",), ("--require-evidence",)])
def test_without_a_trusted_project_no_address_of_the_head_is_contacted(
    kquota, folder, attacker, more
):
    (folder / "README").write_text("x")
    base_of(folder)
    evil_project(folder, attacker)
    committed(folder)
    ran = kquota("plan", *BASE, "--offline", *more, "--format", "json", "--out", "plan.json")
    assert ran.code == (5 if more == ("--require-evidence",) else 0), ran.err
    assert "no configuration to trust" in ran.err
    warnings = json.loads((folder / "plan.json").read_text())["warnings"]
    assert any("its clusters, records and evidence are not used" in warning for warning in warnings)
    for command in ("plan", "apply", "drift", "validate"):
        yes = ("--yes",) if command == "apply" else ()
        ran = kquota(command, *BASE, *yes)
        assert ran.code == 1
        assert "merge the project file first" in ran.err
    assert attacker.received == []


def test_without_a_trusted_project_no_records_of_the_head_are_read(
    kquota, folder, attacker, tmp_path_factory
):
    (folder / "README").write_text("x")
    base_of(folder)
    evil_project(folder, attacker)
    git(folder, "remote", "add", "origin", f"git://{attacker.address}/x")
    text = (folder / "kquota.yaml").read_text()
    place = "  manifests: [quotas]\n  inventory: {gitRef: refs/kquota/inventory}\n"
    (folder / "kquota.yaml").write_text(text.replace("  manifests: [quotas]\n", place))
    committed(folder)
    assert kquota("plan", *BASE, "--offline").code == 0
    assert attacker.received == []
