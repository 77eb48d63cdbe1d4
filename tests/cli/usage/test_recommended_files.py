"""Files of `recommend --out`: own files are replaced and removed, others unchanged; errors come before Spark starts."""

from pathlib import Path

import pytest

from reconciler.app.recorded_use import recommendation
from reconciler.app.recorded_use.recommendation import (
    MARK,
    RecommendOptions,
    WrittenFiles,
    places,
    put_files,
    task_of,
)
from reconciler.app.recorded_use.selection import ClusterSelection, EngineOptions, WindowOptions
from reconciler.errors import UsageError
from reconciler.manifest.loader import load_files
from reconciler.quota.entity import entity
from reconciler.usage.impact.result_rows import EvidenceNote
from reconciler.usage.reports.usage import UsageReport
from tests.cli.conftest import Run
from tests.cli.consoles import Screen
from tests.cli.recommendations import (
    CLUSTERS,
    EVIDENCE,
    PROD,
    STAGING,
    manifest,
    project,
    quota,
    row,
)

ALICES = quota("alices", "producerByteRate: 10000")


def options_of(clusters: ClusterSelection, target: str | None = "new") -> RecommendOptions:
    return RecommendOptions(
        lake="lake",
        clusters=clusters,
        window=WindowOptions(),
        engine=EngineOptions(),
        most=200,
        folder=None if target is None else Path(target),
    )


def places_of(path: Path, *names: str) -> dict[str, Path]:
    return places(path, names or ("prod",), recommendation._targets(None))


def test_a_file_of_kquota_is_replaced_and_removed_when_nothing_is_recommended(folder: Path) -> None:
    path = folder / "deep" / "new" / "prod.yaml"
    assert put_files({path: ALICES}) == WrittenFiles(written=(path,))
    text = path.read_text()
    assert text.startswith(MARK)
    (declaration,) = load_files([("new", text)]).checked().of("prod")
    assert declaration.entity == entity(user="alice")
    assert put_files({path: ALICES.replace("10000", "9999")}) == WrittenFiles(written=(path,))
    assert "9999" in path.read_text()
    assert put_files({path: ""}) == WrittenFiles(removed=(path,))
    assert not path.exists()
    assert put_files({path: ""}) == WrittenFiles(absent=(path,))


@pytest.mark.parametrize("text", [ALICES, ""])
def test_a_foreign_file_is_neither_replaced_nor_removed_and_nothing_is_written(
    folder: Path, text: str
) -> None:
    project(folder, "prod", "staging")
    target = folder / "new"
    target.mkdir()
    (target / "staging.yaml").write_text("# ours\n" + ALICES)
    assert places_of(target) == {"prod": target / "prod.yaml"}
    with pytest.raises(UsageError, match="not from kquota usage recommend"):
        _ = places_of(target, "prod", "staging")
    with pytest.raises(UsageError, match="not from kquota usage recommend"):
        _ = put_files({target / "prod.yaml": ALICES, target / "staging.yaml": text})
    assert [path.name for path in target.iterdir()] == ["staging.yaml"]
    assert (target / "staging.yaml").read_text() == "# ours\n" + ALICES


@pytest.mark.parametrize(
    ("manifests", "text"),
    [
        ("[quotas]", "quotas"),
        ("[quotas]", "quotas/new"),
        ("['*.yaml']", "."),
        ("['**/prod.yaml']", "a/b"),
        ("[.]", "../here/new"),
    ],
)
def test_recommended_files_are_never_placed_where_a_plan_reads_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch, manifests: str, text: str
) -> None:
    current = folder / "here"
    current.mkdir()
    monkeypatch.chdir(current)
    project(current, manifests=f"manifests: {manifests}")
    for place in (Path(text), (current / text)):
        with pytest.raises(UsageError, match="would be one of the manifests of prod"):
            _ = places_of(place)
    assert places_of(Path("../beside")) == {"prod": Path("../beside/prod.yaml")}


def test_a_location_that_cannot_be_written_is_reported_before_the_work(folder: Path) -> None:
    project(folder)
    (folder / "file").write_text("x")
    for target in (folder / "file", folder / "file" / "new"):
        with pytest.raises(UsageError, match="not a writable folder"):
            _ = places_of(target)
    (folder / "new" / "prod.yaml").mkdir(parents=True)
    with pytest.raises(UsageError, match="cannot be replaced"):
        _ = places_of(folder / "new")


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["--cluster", "prod", "--out", "quotas"], "would be one of the manifests of prod"),
        (["--cluster", "prod", "--out", "theirs"], "not from kquota usage recommend"),
        (["--cluster", "prod", "--out", "kquota.yaml/x"], "not a writable folder"),
        (["--cluster-id", PROD, "--out", "new"], "--out needs the name that a project gives"),
    ],
)
def test_an_output_that_cannot_be_written_is_reported_before_a_session_or_a_lake_is_opened(
    kquota: Run, folder: Path, texts: list[str], words: str
) -> None:
    project(folder)
    manifest(folder, "prod.yaml", ALICES)
    (folder / "theirs").mkdir()
    (folder / "theirs" / "prod.yaml").write_text(ALICES)
    # There is no lake, and its address is invalid.
    ran = kquota("usage", "recommend", "--lake", "gopher://x", *texts)
    assert ran.code == 1
    assert words in ran.err
    assert (folder / "quotas" / "prod.yaml").read_text() == ALICES


def test_pins_and_changes_apply_to_their_own_cluster(folder: Path) -> None:
    project(folder, "prod", "staging")
    pinned = "  labels: {kafka-quotas.io/sizing: pinned}\n"
    manifest(
        folder,
        "all.yaml",
        quota("alices", "producerByteRate: 10000", metadata=pinned),
        quota("alices", "producerByteRate: 20000", cluster="staging"),
    )
    task = task_of(Screen().console, options_of(ClusterSelection(every=True)))
    assert task.pinned == {(PROD, entity(user="alice"))}
    assert {cluster: len(several) for cluster, several in task.declarations.items()} == {
        PROD: 1,
        STAGING: 1,
    }

    class Advised:
        report = UsageReport(
            evidence=tuple(
                EvidenceNote(cluster_id=cluster, from_ms=EVIDENCE.from_ms, to_ms=EVIDENCE.to_ms)
                for cluster in CLUSTERS.values()
            )
        )
        changes = (row(cluster_id=STAGING),)

    texts = dict(task.texts(Advised()))
    assert texts[Path("new/prod.yaml")] == ""
    loaded = load_files([("new", texts[Path("new/staging.yaml")])]).checked()
    (declaration,) = loaded.of("staging")
    assert declaration.limits[0] == 5000
    assert loaded.of("prod") == ()


def test_a_run_that_writes_no_file_says_so(kquota: Run, folder: Path) -> None:
    (folder / "lake").mkdir()
    project(folder, "prod")
    ran = kquota("usage", "recommend", "--lake", "lake", "--cluster", "prod", "--out", "new")
    assert "new/prod.yaml is not written" in ran.err
    assert not (folder / "new").exists()
