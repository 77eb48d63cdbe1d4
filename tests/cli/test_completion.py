"""Shell completion of clusters, live entities, users and saved plans."""

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.projects import CLUSTER, PROJECT, project, quota
from tests.git.commits import git
from tests.servers.processes import HANG_SECONDS

TREE = str(Path(__file__).parents[2])


Completed = Callable[..., list[str]]


@pytest.fixture
def completed(kquota: Run, monkeypatch: pytest.MonkeyPatch) -> Completed:
    """`completed(folder, line, NAME="…")`: the completions for the end of a line, with environment variables."""

    def complete(folder: Path, line: str, **environment: str) -> list[str]:
        variables = {"_KQUOTA_COMPLETE": "bash_complete", "COMP_WORDS": line}
        variables["COMP_CWORD"] = "9999" if line.endswith(" ") else "-1"
        with monkeypatch.context() as patch:
            patch.chdir(folder)
            for name, value in (variables | environment).items():
                patch.setenv(name, value)
            ran = kquota()
        assert (ran.code, ran.err) == (0, "")
        return ran.out.split()

    return complete


def commit_all(folder: Path) -> None:
    """Everything in the folder, in one commit."""
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--message", "all")


@pytest.fixture
def prod(folder, sandbox, kquota):
    """A project that was applied: two entities are live."""
    entity = '{user: {name: "CN=alice,O=Acme"}, clientId: {name: etl}}'
    project(folder, sandbox.bootstrap, quota("a"), quota("b", entity=entity))
    assert kquota("apply", "--yes").code == 0
    return folder


def test_clusters_of_the_project_file_are_completed(folder, completed):
    text = PROJECT + "".join(
        "---\n" + CLUSTER.format(name=name, bootstrap="127.0.0.1:1")
        for name in ("prod", "proto", "x")
    )
    (folder / "kquota.yaml").write_text(text)
    assert completed(folder, "kquota plan --cluster pro") == ["plain,prod", "plain,proto"]


def test_live_entities_and_their_names_are_completed(prod, completed):
    assert completed(prod, "kquota plan --only ") == [
        'plain,user="CN=alice,O=Acme",client-id=etl',
        "plain,user=a",
    ]
    assert completed(prod, "kquota plan --only user=a") == ["plain,user=a"]
    assert completed(prod, "kquota resolve --user C") == ["plain,CN=alice,O=Acme"]
    assert completed(prod, "kquota resolve --client-id ") == ["plain,etl"]


def test_brokers_given_as_options_are_queried_without_a_project(
    prod, sandbox, tmp_path_factory, completed
):
    empty = tmp_path_factory.mktemp("empty")
    line = f"kquota describe --bootstrap-server {sandbox.bootstrap} --matching user=a"
    assert completed(empty, line) == ["plain,user=a"]
    variables = {"KQUOTA_BOOTSTRAP_SERVERS": sandbox.bootstrap}
    assert completed(empty, "kquota describe --matching user=a", **variables) == ["plain,user=a"]


def test_completion_does_not_connect_to_a_project_that_was_only_cloned(folder, sandbox, completed):
    sandbox.seed({(("user", "a"),): {"producer_byte_rate": 1.0}})
    project(folder, sandbox.bootstrap, quota("a"))
    assert completed(folder, "kquota plan --only ") == []


def test_records_of_a_commit_do_not_make_a_project_trusted_for_completion(prod, completed):
    git(prod, "init", "--quiet")
    commit_all(prod)
    assert completed(prod, "kquota plan --only ") == []


def test_a_cluster_that_does_not_answer_completes_nothing_and_prints_nothing(
    prod, folder, completed
):
    text = (folder / "kquota.yaml").read_text()
    (folder / "kquota.yaml").write_text(
        text.replace("bootstrapServers: ", "bootstrapServers: 127.0.0.1:1 #")
    )
    assert completed(prod, "kquota plan --only ") == []


def test_an_invalid_project_file_completes_nothing(folder, completed):
    (folder / "kquota.yaml").write_text("{")
    assert completed(folder, "kquota plan --cluster ") == []


def test_saved_plans_are_completed_before_other_files(prod, kquota, completed):
    assert kquota("plan", "--out", "plan.json").code == 0
    (prod / "other.json").write_text("{}")
    assert completed(prod, "kquota apply ") == ["plain,plan.json"]
    assert completed(prod, "kquota apply q") == ["file,q"]


REPLIES = {
    "kquota plan --only user=a": "a",
    "kquota plan --only 'x y' --only us": r"user=\"CN=alice\,O=Acme\"\,client-id=etl",
    "kquota plan --only=user=a": "a",
    "kquota resolve --user C": r"CN=alice\,O=Acme",
    "kquota resolve --user CN=al": r"alice\,O=Acme",
}


def test_in_bash_the_completion_replaces_the_part_after_the_word_break(prod, kquota):
    definition = kquota("completion", "bash").out
    program = (
        f'kquota() {{ {shlex.quote(sys.executable)} -m reconciler "$@"; }}; {definition}'.replace(
            "env COMP_WORDS", f"env PYTHONPATH={TREE} COMP_WORDS"
        )
    )
    (prod / "kquota").write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -m reconciler\n")
    (prod / "kquota").chmod(0o755)
    requests = [
        f"COMP_LINE={shlex.quote(line)}; COMP_POINT=${{#COMP_LINE}}; COMPREPLY=()\n"
        '_kquota_completion ./kquota; echo "${COMPREPLY[0]}"'
        for line in REPLIES
    ]
    ran = subprocess.run(
        ["bash", "-c", "\n".join([program, *requests])],
        cwd=prod,
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_SECONDS,
    )
    assert ran.stdout.splitlines() == list(REPLIES.values())
