"""What names or counts quota keys in the CRDs and in the chart follows from the table of keys."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.quota.keys import COLUMNS
from tools import key_schemas, modes

CRDS = ("crds/kafka-quotas.io_clientquotas.yaml", "crds/kafka-quotas.io_quotaclusters.yaml")
PLACES = [
    (name, path)
    for name in CRDS
    for path, _ in key_schemas.crd_values(yaml.safe_load((modes.ROOT / name).read_text("utf-8")))
]


def test_every_file_that_names_keys_is_up_to_date() -> None:
    assert modes.stale(modes.ROOT, key_schemas.generate(modes.ROOT)) == [], "run `make generate`"


def copied(folder: Path) -> Path:
    """A copy of the files that the generator reads."""
    for name in key_schemas.generate(modes.ROOT):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text((modes.ROOT / name).read_text("utf-8"), "utf-8")
    return folder


def edited(value: Any) -> Any:
    """A value as an edit by hand could leave it: one more, only its first field, or without its fourth entry."""
    if isinstance(value, int):
        return value + 1
    if isinstance(value, dict):
        return dict([*value.items()][:1])
    return [*value[:3], *value[4:]]


@pytest.mark.parametrize(("name", "path"), PLACES)
def test_an_edit_by_hand_of_a_place_that_follows_from_the_keys_is_noticed_and_undone(
    tmp_path: Path, name: str, path: tuple[str | int, ...]
) -> None:
    root = copied(tmp_path)
    text = (root / name).read_text("utf-8")
    values = dict(key_schemas.crd_values(yaml.safe_load(text)))
    (root / name).write_text(key_schemas.with_values(text, {path: edited(values[path])}), "utf-8")
    assert modes.stale(root, key_schemas.generate(root)) == [name]
    generated = key_schemas.generate(root)[name]
    assert yaml.safe_load(generated) == yaml.safe_load(text)


def test_lines_that_have_their_value_already_are_kept_as_they_are_wrapped() -> None:
    text = "# head\nkeys:\n  - name: a\n    text: one\n      two\n  - name: b\n    text: c\nrest:   x\n"
    same, added = {"name": "a", "text": "one two"}, {"name": "new", "text": "d"}
    assert key_schemas.with_values(text, {("keys",): [same, added]}) == text.replace(
        "  - name: b\n    text: c\n", "  - name: new\n    text: d\n"
    )


def test_an_edit_by_hand_of_the_bounds_in_the_values_of_the_chart_is_noticed(
    tmp_path: Path,
) -> None:
    root = copied(tmp_path)
    name = f"{key_schemas.CHART}/values.schema.json"
    text = (root / name).read_text("utf-8")
    (root / name).write_text(text.replace('"consumerByteRate"', '"consumedByteRate"'), "utf-8")
    assert modes.stale(root, key_schemas.generate(root)) == [name]
    assert key_schemas.generate(root)[name] == text


def test_an_edit_by_hand_of_the_fields_with_fractions_in_the_chart_is_noticed(
    tmp_path: Path,
) -> None:
    root = copied(tmp_path)
    name = f"{key_schemas.CHART}/templates/admission-policies.yaml"
    text = (root / name).read_text("utf-8")
    (root / name).write_text(text.replace(' "controllerMutationRate"', ""), "utf-8")
    assert modes.stale(root, key_schemas.generate(root)) == [name]
    assert key_schemas.generate(root)[name] == text


def test_every_key_has_its_texts() -> None:
    assert list(key_schemas.TEXTS) == list(COLUMNS)


def test_places_in_a_definition_are_found_wherever_a_list_or_an_enum_names_keys() -> None:
    words = json.dumps([path[-1] for _, path in PLACES])
    assert (words.count('"enum"'), words.count('"maxItems"')) == (3, 3)
