"""Malicious manifests: links out of the repository, devices, and too large files."""

import os
from pathlib import Path

import pytest

from reconciler.manifest import files
from reconciler.manifest.files import read_blobs, read_paths
from reconciler.manifest.loader import load_files
from reconciler.manifest.syntax import yaml_parser
from reconciler.manifest.syntax.nodes import Node
from reconciler.manifest.syntax.yaml_parser import (
    MAX_FILE_NODES,
    MAX_NODES,
    MAX_TREE_NODES,
    DocumentText,
    NodeBudget,
)
from tests.cli.projects import quota
from tests.manifest.file_texts import files_of, problems_of


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with one file of manifests, and a secret outside of it."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "s.yaml").write_text("kind: Secret\n")
    top = tmp_path / "repo"
    (top / ".git").mkdir(parents=True)
    (top / ".git" / "HEAD").touch()
    (top / "quotas").mkdir()
    (top / "quotas" / "a.yaml").write_text("# a\n")
    return top


@pytest.mark.parametrize("target", ["/dev/zero", "/proc/self/environ", "../../secret/s.yaml"])
def test_a_file_link_that_leaves_the_repository_is_a_problem(tree: Path, target: str):
    (tree / "quotas" / "x.yaml").symlink_to(target)
    for pattern in ("quotas", "quotas/x.yaml", "quotas/*.yaml", "**/x.yaml"):
        (problem,) = problems_of(read_paths([pattern], tree))
        assert problem.path == "quotas/x.yaml"
        assert "outside" in problem.message


@pytest.mark.parametrize("target", ["/proc", "/", "../../secret"])
def test_a_folder_link_that_leaves_the_repository_is_a_problem_and_is_not_followed(tree, target):
    (tree / "quotas" / "x").symlink_to(target)
    for pattern in ("quotas", "quotas/**", "quotas/**/*.yaml"):
        (problem,) = problems_of(read_paths([pattern], tree))
        assert problem.path == "quotas/x"
        assert "outside" in problem.message


@pytest.mark.parametrize("pattern", ["quotas", "quotas/s.yaml", "quotas/*.yaml", "quotas/**"])
def test_a_configured_folder_that_became_a_link_is_a_problem(tree: Path, pattern: str):
    (tree / "quotas" / "a.yaml").unlink()
    (tree / "quotas").rmdir()
    (tree / "quotas").symlink_to("../secret")
    texts = read_paths([pattern], tree)
    assert files_of(texts) == ()
    assert any("outside" in problem.message for problem in problems_of(texts))


def test_links_inside_the_repository_are_followed(tree: Path):
    (tree / "shared").mkdir()
    (tree / "shared" / "b.yaml").write_text("# b\n")
    (tree / "quotas" / "x").symlink_to("../shared")
    (tree / "quotas" / "c.yaml").symlink_to("../shared/b.yaml")
    texts = read_paths(["quotas"], tree)
    assert problems_of(texts) == ()
    assert [name for name, _ in files_of(texts)] == [
        "quotas/a.yaml",
        "quotas/c.yaml",
        "quotas/x/b.yaml",
    ]


def test_a_folder_given_as_an_argument_may_be_a_link(tree: Path, tmp_path: Path):
    (tmp_path / "typed").symlink_to(tree / "quotas")
    assert len(files_of(read_paths([str(tmp_path / "typed")], Path("/nowhere")))) == 1


def test_a_pipe_among_the_manifests_is_an_immediate_problem(tree: Path):
    os.mkfifo(tree / "quotas" / "x.yaml")
    for pattern in ("quotas", "quotas/x.yaml"):
        (problem,) = problems_of(read_paths([pattern], tree))
        assert problem.message == "cannot be read: it is a pipe, not a regular file"


def test_the_total_size_of_files_is_limited(tree: Path, monkeypatch):
    monkeypatch.setattr(files, "MAX_BYTES", 10)
    (tree / "quotas" / "b.yaml").write_text("# 3456789")
    for texts in (
        read_paths(["quotas"], tree, max_file_bytes=10),
        read_blobs(
            ["q"],
            ["q/a.yaml", "q/b.yaml"],
            lambda names: dict.fromkeys(names, 7),
            lambda names: pytest.fail("read before the sizes were accepted"),
            max_file_bytes=10,
        ),
    ):
        assert len(files_of(texts)) < 2
        assert "larger than 10 bytes together" in problems_of(texts)[-1].message


# -- nodes --------------------------------------------------------------------------------------------


def read(text: str, budget: NodeBudget) -> tuple[list[Node], list[str]]:
    problems: list[yaml_parser.Problem] = []
    nodes = yaml_parser.read(DocumentText(text, 7), "x.yaml", problems, budget)
    return nodes, [str(problem) for problem in problems]


def test_the_number_of_nodes_of_a_file_is_limited():
    assert read("[1, 2, 3]", NodeBudget(file=4))[1] == []
    nodes, problems = read("[1, 2,\n 3]", NodeBudget(file=3))
    assert nodes == []
    assert problems == [
        "x.yaml:8:2: the file holds more than 3 keys and values; split it, or name fewer paths"
    ]


def test_the_number_of_nodes_of_all_files_is_limited():
    budget = NodeBudget(file=4, total=6)
    assert read("[1, 2, 3]", budget)[1] == []
    budget.begin_file()
    assert not budget.is_spent
    _, problems = read("[1, 2, 3]", budget)
    assert "the files together hold more than 6 keys and values" in problems[0]
    assert budget.is_spent


def test_documents_of_one_file_share_its_limit():
    assert read("--- [1, 2]\n...\n--- [1, 2]\n", NodeBudget(file=6))[1] == []
    assert "more than 5" in read("--- [1, 2]\n...\n--- [1, 2]\n", NodeBudget(file=5))[1][0]


def test_a_flow_list_of_twenty_megabytes_is_refused_before_its_end():
    budget = NodeBudget(file=5000, total=6000)
    flow = "[" + "a," * 10_000_000 + "a]"
    loaded = load_files([("x.yaml", flow), ("y.yaml", flow), ("z.yaml", flow)], budget=budget)
    assert [problem.message for problem in loaded.problems] == [
        "the file holds more than 5000 keys and values; split it, or name fewer paths",
        "the files together hold more than 6000 keys and values; split it, or name fewer paths",
    ]


def test_a_hundred_thousand_documents_and_a_list_of_20_000_are_within_the_limits():
    item = "apiVersion: v1\nkind: List\nitems:\n" + quota(
        "a", more="  deletionPolicy: Delete\n  drift: Warn\n"
    ).replace("---\n", "- ").replace("\n", "\n  ")
    budget = NodeBudget()
    nodes, problems = read(item, budget)
    assert problems == []
    assert nodes
    assert (MAX_FILE_NODES - budget.left_in_file) * 100_000 < MAX_FILE_NODES
    assert (MAX_FILE_NODES - budget.left_in_file) * 20_000 < MAX_TREE_NODES
    assert MAX_FILE_NODES * 2 <= MAX_NODES
