"""Damaged units can be started anew on request: the loss is reported until the data is imported again."""

from pathlib import Path

import pytest

from reconciler.errors import LakeDamaged
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.manifest import Manifest
from reconciler.evidence.store.unit_repair import LOST, given_up, regained, sentences
from reconciler.usage.tables import SNAPSHOT
from tests.evidence.store import rows


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return rows.lake_in(tmp_path)


def looked(lake: Lake, number: int, *counts: int) -> Manifest:
    """A day of quota snapshots in several generations, each with a given number of rows."""
    unit = rows.unit(SNAPSHOT, number)
    manifest = lake.manifest(unit)
    for count in counts:
        looks = [(f"look {at}", at, 0, True) for at in range(count)]
        manifest = lake.commit(unit, rows.snapshots(number, looks), manifest, inputs={"a": "b"})
    assert manifest is not None
    return manifest


def spoil(lake: Lake, manifest: Manifest, how: str) -> None:
    path = manifest.files[0].path
    content = lake.store.get(path)
    lake.store.delete([path])
    if how != "missing":
        altered = content[:-9] if how == "cut" else bytes([content[0] ^ 1]) + content[1:]
        lake.store.put(path, altered)


def begun_anew(lake: Lake, *, first: int = 0, last: int = 9) -> tuple[str, ...]:
    return given_up(lake, SNAPSHOT, rows.CLUSTER, rows.day(first), rows.day(last))


@pytest.mark.parametrize("how", ["missing", "cut", "altered"])
def test_a_damaged_unit_is_started_again_and_the_lost_rows_are_listed(lake: Lake, how: str) -> None:
    manifest = looked(lake, 0, 3)
    spoil(lake, manifest, how)
    with pytest.raises(LakeDamaged):
        lake.read([manifest])
    assert begun_anew(lake) == (f"{manifest.unit} was damaged and recreated without its 3 rows",)
    (new_manifest,) = lake.manifests(SNAPSHOT)
    assert (new_manifest.generation, new_manifest.files, new_manifest.inputs["a"]) == (2, (), "b")
    assert new_manifest.partial == ("some of 3 rows were lost and not imported again",)
    assert begun_anew(lake) == ()


def test_intact_units_and_those_of_other_days_are_unchanged(lake: Lake) -> None:
    looked(lake, 1, 2)
    spoil(lake, looked(lake, 0, 2), "missing")
    assert begun_anew(lake, first=1) == ()
    assert [manifest.generation for manifest in lake.manifests(SNAPSHOT)] == [1, 1]


def test_a_loss_is_reported_until_the_same_number_of_rows_is_stored() -> None:
    inputs = {LOST: "1200", "a": "b"}
    assert sentences(inputs) == ("some of 1,200 rows were lost and not imported again",)
    assert regained(inputs, 1199) == inputs
    assert regained(inputs, 1200) == regained({"a": "b"}, 0) == {"a": "b"}
    assert sentences({"a": "b"}) == ()
