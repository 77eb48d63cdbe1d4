"""The options of kquota usage: times, windows, clusters by id."""

import pytest

from reconciler.app.recorded_use.selection import ClusterSelection
from reconciler.cli.usage.options import InstantParameter
from reconciler.errors import ConfigError, UsageError
from tests.cli import projects


@pytest.mark.parametrize("text", ["yesterday", "2023-13-01", "", "1969-12-31", "-5m", "14"])
def test_invalid_times_are_refused(text):
    with pytest.raises(Exception, match=r"not a time|before 1970"):
        InstantParameter().convert(text, None, None)


def test_a_cluster_without_an_id_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    projects.project(tmp_path, "h:9092")
    with pytest.raises(ConfigError, match="expectedClusterId"):
        ClusterSelection(every=True).select()


def test_one_of_several_clusters_must_be_chosen(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    a = projects.CLUSTER.format(name="a", bootstrap="h:1") + "  expectedClusterId: ia\n"
    b = projects.CLUSTER.format(name="b", bootstrap="h:2") + "  expectedClusterId: ib\n"
    (tmp_path / "kquota.yaml").write_text(f"{projects.PROJECT}---\n{a}---\n{b}")
    with pytest.raises(UsageError, match="2 clusters"):
        ClusterSelection().select()
    assert [each.id for each in ClusterSelection(every=True).select()] == ["ia", "ib"]
    assert [each.id for each in ClusterSelection(names=("b",)).select()] == ["ib"]


@pytest.mark.parametrize(
    "options", [{"every": True, "names": ("a",)}, {"ids": ("x",), "every": True}]
)
def test_contradictory_options_are_refused(options):
    with pytest.raises(UsageError):
        ClusterSelection(**options)


def test_files_must_belong_to_the_selected_clusters(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    a = projects.CLUSTER.format(name="a", bootstrap="h:1") + "  expectedClusterId: ia\n"
    b = projects.CLUSTER.format(name="b", bootstrap="h:2") + "  expectedClusterId: ib\n"
    (tmp_path / "kquota.yaml").write_text(f"{projects.PROJECT}---\n{a}---\n{b}")
    ClusterSelection().check({"anything"})
    ClusterSelection(names=("a",)).check({"ia"})
    ClusterSelection(every=True).check({"ia"})
    ClusterSelection(ids=("x", "y")).check({"x", "y"})
    with pytest.raises(UsageError, match="the files are for cluster ib, but only a is selected"):
        ClusterSelection(names=("a",)).check({"ia", "ib"})
    with pytest.raises(UsageError, match="the files are for cluster other, but only a, b is"):
        ClusterSelection(every=True).check({"other"})
    with pytest.raises(UsageError, match="no file is for b"):
        ClusterSelection(names=("a", "b")).check({"ia"})
    with pytest.raises(UsageError, match="no file is for y"):
        ClusterSelection(ids=("x", "y")).check({"x"})
