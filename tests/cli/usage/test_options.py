"""The options of kquota usage: times, windows, clusters by id."""

import pytest

from reconciler.app.recorded_use.selection import ClusterSelection
from reconciler.cli.usage.options import InstantParameter
from reconciler.errors import ConfigError, UsageError
from tests.cli import projects

NOW = 1_700_000_000
DAY = 86_400_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2023-11-14", 1_699_920_000_000),
        ("2023-11-14T22:13:20Z", NOW * 1000),
        ("2023-11-14T22:13:20", NOW * 1000),
        ("2023-11-14T23:13:20+01:00", NOW * 1000),
        ("2023-11-14T22:13:20.250Z", NOW * 1000 + 250),
        ("14d", -14 * DAY),
        ("1h30m", -5_400_000),
    ],
)
def test_a_time_is_a_date_an_instant_or_a_duration_ago(text, expected):
    assert InstantParameter().convert(text, None, None) == expected


@pytest.mark.parametrize("text", ["yesterday", "2023-13-01", "", "1969-12-31", "-5m", "14"])
def test_invalid_times_are_refused(text):
    with pytest.raises(Exception, match=r"not a time|before 1970"):
        InstantParameter().convert(text, None, None)


def test_a_cluster_of_a_project_is_known_by_its_expected_id(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    projects.project(tmp_path, "h:9092", more="  expectedClusterId: abc\n")
    (only,) = ClusterSelection().select()
    assert (only.id, only.name, only.display_name) == ("abc", "prod", "prod")
    assert only.settings is not None


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
