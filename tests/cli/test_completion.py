"""Shell completion of clusters, saved plans and outcomes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.projects import CLUSTER, PROJECT, project, quota

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


@pytest.fixture
def prod(folder, sandbox, kquota):
    """A project that was applied once."""
    project(folder, sandbox.bootstrap, quota("a"))
    assert kquota("apply", "--yes").code == 0
    return folder


def test_clusters_of_the_project_file_are_completed(folder, completed):
    text = PROJECT + "".join(
        "---\n" + CLUSTER.format(name=name, bootstrap="127.0.0.1:1")
        for name in ("prod", "proto", "x")
    )
    (folder / "kquota.yaml").write_text(text)
    assert completed(folder, "kquota plan --cluster pro") == ["plain,prod", "plain,proto"]


def test_an_invalid_project_file_completes_nothing(folder, completed):
    (folder / "kquota.yaml").write_text("{")
    assert completed(folder, "kquota plan --cluster ") == []


def test_saved_plans_are_completed_before_other_files(prod, kquota, completed):
    assert kquota("plan", "--out", "plan.json").code == 0
    (prod / "other.json").write_text("{}")
    assert completed(prod, "kquota apply ") == ["plain,plan.json"]
    assert completed(prod, "kquota apply q") == ["file,q"]


def test_outcomes_are_completed(prod, completed):
    (outcome,) = (prod / ".kquota" / "outcomes").glob("*.json")
    assert completed(prod, "kquota rollback ") == [f"plain,{outcome.relative_to(prod)}"]
    assert completed(outcome.parent, "kquota rollback ") == [f"plain,{outcome.name}"]
