"""JSON with positions."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import ManifestErrors
from reconciler.manifest.foreign import json_nodes
from reconciler.manifest.syntax.nodes import MappingNode, Node, ScalarNode, SequenceNode, find

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def plain(node: Node) -> object:
    match node:
        case MappingNode(entries):
            return {key: plain(entry.value) for key, entry in entries.items()}
        case SequenceNode(nodes):
            return [plain(child) for child in nodes]
        case ScalarNode(text, is_plain):
            return json.loads(text) if is_plain else text


@given(value=values, indent=st.sampled_from([None, 2]), ascii_only=st.booleans())
def test_text_of_pythons_json_writer_is_read_unchanged(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert plain(json_nodes.read(text, "f")) == value


def test_every_value_has_its_line_and_column():
    root = json_nodes.read('\ufeff{\n  "a": [1,\n    "x"]\n}', "f")
    node = find(root, ("a", 1))
    assert node == ScalarNode("x", False, 3, 5)


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
