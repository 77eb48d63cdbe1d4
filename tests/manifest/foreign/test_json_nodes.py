"""JSON with positions."""

import pytest

from reconciler.errors import ManifestErrors
from reconciler.manifest.foreign import json_nodes


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "f:1:1: not JSON: it ends too early"),
        ("[1", "f:1:3: not JSON: ']' is missing"),
        ('{"a" 1}', "f:1:6: not JSON: a colon is missing"),
        ('{"a": 1 "b": 2}', "f:1:9: not JSON: '}' is missing"),
        ('{"a": 1,}', "f:1:9: not JSON: a key in double quotes is missing"),
        ('{"a": 1,\n "a": 2}', "f:2:2: not JSON: key 'a' is given twice"),
        ('["a\n"]', "f:1:2: not JSON: a string does not end on its line"),
        ('["\\x"]', "f:1:3: not JSON: Invalid \\escape"),
        ("[01]", "f:1:3: not JSON: ']' is missing"),
        ("[NaN]", "f:1:2: not JSON: a value is missing"),
        ("[] []", "f:1:4: not JSON: unexpected content after the end of the document"),
        ("[" * 300, "f:1:202: not JSON: nested more than 200 levels deep"),
    ],
)
def test_invalid_json_is_an_error_with_its_place(text, problem):
    with pytest.raises(ManifestErrors) as raised:
        json_nodes.read(text, "f")
    assert str(raised.value) == problem
