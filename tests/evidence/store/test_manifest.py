import json
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from reconciler.errors import LakeDamaged, LakeError
from reconciler.evidence.store import json_files, manifest
from reconciler.evidence.store.manifest import Manifest, UnitFile, counts_of, states_of_all
from reconciler.usage.tables import SCHEMA_VERSION, USAGE_SAMPLE
from tests.evidence.store import rows

COMPLETE = Manifest(
    table="target_up",
    cluster_id=rows.CLUSTER,
    day=rows.day(0),
    generation=7,
    schema_version=SCHEMA_VERSION,
    run_id="run",
    made_ms=5,
    files=(UnitFile(path="target_up/x/y.parquet", size=3, rows=2, sha256="0" * 64),),
    counts={"gaps": 3},
    inputs={"point": "4"},
    partial=("a scrape is missing",),
)


def changed(**fields: object) -> bytes:
    document: dict[str, Any] = json.loads(COMPLETE.json()) | fields
    return json.dumps(
        {name: value for name, value in document.items() if value is not ...}
    ).encode()


def test_a_manifest_is_read_as_it_was_written() -> None:
    assert manifest.read(COMPLETE.json(), "x", COMPLETE.unit) == COMPLETE
    assert COMPLETE.path == f"target_up/_units/{rows.CLUSTER}/2025-03-01/0000000007.json"
    assert COMPLETE.rows == 2


def test_the_coverage_of_brokers_is_stored_in_the_counts_and_is_not_a_state() -> None:
    with_coverage = replace(
        COMPLETE, counts=counts_of({"filled": 3, "no_up": 0}, {"1": 1_000_000, "2 b": 0})
    )
    again = manifest.read(with_coverage.json(), "x")
    assert again.states == {"filled": 3}
    assert again.coverage == {"1": 1_000_000, "2 b": 0}
    assert again.counts["covered_ppm 1"] == 1_000_000  # the format of manifests of earlier runs
    assert states_of_all([again, COMPLETE, again]) == {"filled": 6, "gaps": 3}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (COMPLETE.json()[:-20], "is not JSON"),
        (b"[]", "is not a JSON object"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"format": "a", "format": "b"}', "is not JSON (the key 'format' is given twice)"),
        (changed(format="other"), "is 'other' and not 'kquota-lake-manifest'"),
        (changed(format_version=2), "is of format version 2; this program reads up to 1"),
        (
            changed(schema_version=2),
            "was written with schema version 2; this program reads 0 and 1",
        ),
        (changed(table="nothing"), "the table 'nothing' is not known"),
        (changed(cluster_id=3), "cluster_id should be a string"),
        (changed(generation=True), "generation should be a whole number"),
        (changed(generation=-1), "generation should be a whole number from 0"),
        (changed(day="2025-02-30"), "day should be a date"),
        (changed(files={}), "files should be an array"),
        (changed(files=[{}]), "files[0] should be an object with the field 'path'"),
        (changed(partial=[1]), "partial[0] should be a string"),
        (changed(counts={"a": "b"}), 'counts["a"] should be a whole number'),
        (changed(inputs={"a": 1}), 'inputs["a"] should be a string'),
        (changed(inputs=[]), "inputs should be an object"),
        (changed(counts=[]), "counts should be an object"),
        (changed(more=1), "the unknown field 'more'"),
        (changed(run_id=...), "the field 'run_id'"),
        (changed(cluster_id="other"), "is of target_up of other"),
    ],
)
def test_every_error_of_a_manifest_names_the_file(content: bytes, message: str) -> None:
    with pytest.raises(LakeDamaged) as caught:
        manifest.read(content, "some/file", COMPLETE.unit)
    assert str(caught.value).startswith("some/file: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "wrong", [{"path": "../x"}, {"path": "/x"}, {"sha256": "A" * 64}, {"sha256": ""}, {"path": ""}]
)
def test_files_outside_the_store_or_without_a_digest_are_refused(wrong: dict[str, str]) -> None:
    file = {"path": "x", "size": 1, "rows": 1, "sha256": "0" * 64} | wrong
    with pytest.raises(LakeDamaged):
        manifest.read(changed(files=[file]), "x")


def test_the_previous_version_is_read() -> None:
    assert manifest.read(changed(schema_version=SCHEMA_VERSION - 1), "x").schema_version == 0


def test_older_versions_are_refused_with_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_files, "SCHEMA_VERSION", 3)
    with pytest.raises(LakeDamaged, match="schema version 1; this program reads 2 and 3") as caught:
        manifest.read(COMPLETE.json(), "x")
    assert "make it again" in caught.value.hint


def test_a_newer_version_is_refused_with_the_advice_to_upgrade() -> None:
    with pytest.raises(LakeDamaged) as caught:
        manifest.read(changed(schema_version=2), "x")
    assert caught.value.hint.startswith("upgrade kquota")


@given(st.text(min_size=1), st.text(min_size=1))
def test_names_in_paths_are_safe_and_unique(first: str, second: str) -> None:
    for name in (first, second):
        safe = manifest.safe(name)
        assert safe.isascii()
        assert not set(safe) & set('/%\\:*?"<>|{}[] #&=')
        assert safe[0] not in "._"
        assert manifest.is_inside(safe)
    assert (manifest.safe(first) == manifest.safe(second)) == (first == second)


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("lkc-Ab_1", "lkc-Ab_1"),
        ("a/b", "a~2Fb"),
        ("..", "~2E."),
        ("_x", "~5Fx"),
        ("~2F", "~7E2F"),
        ("ü", "~C3~BC"),
        ("\0", "~00"),
    ],
)
def test_ordinary_cluster_ids_are_unchanged(name: str, safe: str) -> None:
    assert manifest.safe(name) == safe


def test_a_unit_requires_a_cluster() -> None:
    with pytest.raises(LakeError):
        rows.unit(USAGE_SAMPLE, cluster_id="")
