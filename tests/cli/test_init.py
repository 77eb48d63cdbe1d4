"""kquota init: the files of a new project; existing files are kept."""

import io
from pathlib import Path

import pytest
import yaml

from reconciler.cli.init import init
from tests.cli.consoles import Screen

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "reconciler" / "cli" / "workflows"
BASE = ("init", "--bootstrap-server", "broker-1:9092", "--cluster", "eu")


def written(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_a_new_project_is_complete_and_valid(kquota, folder):
    ran = kquota(*BASE)
    assert ran.code == 0, ran.err
    assert written(folder) == {"kquota.yaml", "quotas/example.yaml", ".kquota/.gitignore"}
    assert (folder / ".kquota").stat().st_mode & 0o777 == 0o700
    assert kquota("validate").code == 0
    assert "kquota adopt" in ran.err


def test_a_second_run_changes_nothing_and_other_content_is_never_replaced(kquota, folder):
    assert kquota(*BASE).code == 0
    assert kquota(*BASE).code == 0
    (folder / "kquota.yaml").write_text("# mine\n")
    (folder / "quotas" / "example.yaml").unlink()
    ran = kquota(*BASE)
    assert ran.code == 1
    assert "kquota.yaml exists with other content" in ran.err
    assert (folder / "kquota.yaml").read_text() == "# mine\n"
    assert not (folder / "quotas" / "example.yaml").exists()


def test_without_a_terminal_the_bootstrap_servers_are_required(kquota, folder):
    ran = kquota("init")
    assert ran.code == 1
    assert "--bootstrap-server" in ran.err
    assert written(folder) == set()


def test_on_a_terminal_init_asks_and_an_empty_answer_selects_the_default(folder, monkeypatch):
    screen = Screen(asks=True)
    monkeypatch.setattr("sys.stdin", io.StringIO("broker-9:9092\n\n"))
    code = init.main([], standalone_mode=False, obj=screen.console)
    assert code == 0
    assert "Bootstrap servers (HOST:PORT,...) : Name of the cluster [prod] " in screen.words
    text = (folder / "kquota.yaml").read_text()
    assert text.count("metadata: {name: prod}\n") == 1
    assert 'bootstrapServers: "broker-9:9092"' in text


def test_an_invalid_cluster_name_is_refused_before_anything_is_written(kquota, folder):
    ran = kquota("init", "--bootstrap-server", "a:1", "--cluster", "Not A Name")
    assert ran.code == 1
    assert "is not a valid resource name" in ran.err
    assert written(folder) == set()


def test_the_workflows_of_github_equal_the_examples_with_the_name_of_the_cluster(kquota, folder):
    assert kquota(*BASE, "--workflows", "github").code == 0
    names = {path.name for path in (ROOT / "examples/github").glob("quotas-*.yml")}
    assert {path.name for path in (folder / ".github/workflows").iterdir()} == names
    text = (folder / ".github/workflows/quotas-plan.yml").read_text()
    steps = yaml.safe_load(text)["jobs"]["plan"]["steps"]
    assert "eu" in {step.get("with", {}).get("cluster") for step in steps}


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_the_packaged_workflows_equal_the_examples(kind):
    """`make generate` copies them."""
    for path in (SHIPPED / kind).iterdir():
        assert path.read_text() == (ROOT / "examples" / kind / path.name).read_text(), path.name
