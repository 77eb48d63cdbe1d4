"""A ClientQuota: its value, and that the hand-written check, the schema and the rules agree."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.manifest import explanation
from reconciler.manifest.document import DocumentDeclined, from_node, from_resource
from reconciler.manifest.syntax.nodes import MappingEntry, MappingNode, Node, ScalarNode, from_json
from reconciler.manifest.writer import document_text
from reconciler.quota.entity import ABSENT, DEFAULT
from reconciler.quota.policy import DeletionPolicy
from tests.manifest.rules.test_client_quota import BROKEN
from tests.manifest.samples import FORMS, declarations, quota
from tests.manifest.syntax.test_scalars import REFUSED, TEXT
from tests.manifest.syntax.test_yaml_parser import reading

ENTITIES = (
    ("alice", "app", ABSENT),
    ("alice", DEFAULT, ABSENT),
    ("alice", ABSENT, ABSENT),
    (DEFAULT, "app", ABSENT),
    (DEFAULT, DEFAULT, ABSENT),
    (DEFAULT, ABSENT, ABSENT),
    (ABSENT, "app", ABSENT),
    (ABSENT, DEFAULT, ABSENT),
    (ABSENT, ABSENT, "10.0.0.7"),
    (ABSENT, ABSENT, DEFAULT),
)


@pytest.mark.parametrize(("form", "expected"), list(zip(FORMS, ENTITIES, strict=True)))
def test_each_of_the_ten_forms_gives_its_entity(form: dict[str, Any], expected: object) -> None:
    limits = {"connectionCreationRate": 5} if "ip" in form else {"producerByteRate": 5}
    assert from_resource(quota(entity=form, limits=limits)).declaration.entity == expected


def test_a_document_is_read_into_a_declaration_with_every_field() -> None:
    resource = quota(
        limits={"producerByteRate": "10Mi", "requestPercentage": 50.5},
        deletionPolicy="Delete",
        suspend=True,
    )
    resource["metadata"]["labels"] = {"team": "payments"}
    new_quota = from_resource(resource, "somewhere")
    assert new_quota.cluster == "prod"
    assert new_quota.declaration.labels == (("team", "payments"),)
    declaration = new_quota.declaration
    assert declaration.document == "payments/a"
    assert declaration.limits == (10485760.0, None, 50.5, None, None)
    assert declaration.deletion_policy is DeletionPolicy.DELETE
    assert declaration.suspended
    assert declaration.path == "somewhere"


def test_a_decimal_keeps_its_value_for_any_spelling_in_json() -> None:
    for value in (5.0, 1e22, 1e-9, 5e-324, 1.7e308, 50.5):
        new_quota = from_resource(quota(limits={"requestPercentage": value}))
        assert new_quota.declaration.limits == (None, None, value, None, None)


@pytest.mark.parametrize(
    ("stored", "means"),
    [
        (18446744073709552000, 2.0**64),  # the form of 2^64 in Go
        (9223372036854776000, 2.0**63),
        (9007199254740994, 2.0**53 + 2),
        (10**22, 1e22),
    ],
)
def test_a_decimal_in_the_shortest_spelling_of_the_api_server_keeps_its_value(
    stored: int, means: float
) -> None:
    new_quota = from_resource(quota(limits={"requestPercentage": stored}))
    assert new_quota.declaration.limits == (None, None, means, None, None)
    with pytest.raises(DocumentDeclined):
        from_resource(quota(limits={"requestPercentage": stored + 1}))


@pytest.mark.parametrize(
    "document", [document for _, document, _ in BROKEN if document["kind"] == "ClientQuota"]
)
def test_a_document_that_breaks_a_rule_is_declined(document: dict[str, Any]) -> None:
    with pytest.raises(DocumentDeclined):
        from_resource(document)


@pytest.mark.parametrize("plain", REFUSED)
def test_an_ambiguous_plain_name_is_declined_and_a_quoted_one_accepted(plain: str) -> None:
    assert not _accepts_name(plain, plain=True)
    assert _accepts_name(plain, plain=False) is (plain != "")


def _accepts_name(text: str, *, plain: bool) -> bool:
    root = _replaced(
        from_json(quota()), ("spec", "entity", "user", "name"), ScalarNode(text, plain, 0, 0)
    )
    try:
        return from_node(root, "").declaration.entity == (text, ABSENT, ABSENT)
    except DocumentDeclined:
        return False


# ---- one verdict ----------------------------------------------------------------------------

junk: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 2**64),
    st.floats(),
    st.text(max_size=3),
    st.builds(list),
    st.builds(dict),
    st.sampled_from(
        (
            "10Mi",
            "0.5",
            "1e3",
            "010",
            "-1",
            "8Ei",
            "9223372036854775807",
            "Delete",
            "Retain",
            "2026-12-31T00:00:00Z",
            "2026-02-30T00:00:00Z",
            "a",
            "A",
            "x" * 300,
        )
    ),
    st.sampled_from(
        (2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**31 - 1, 2**31, 10**400, 0.5, 5.0, 1e308)
    ),
)
PATHS: tuple[tuple[str, ...], ...] = (
    ("apiVersion",),
    ("kind",),
    ("metadata",),
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("metadata", "labels"),
    ("metadata", "labels", "k"),
    ("metadata", "annotations", "k"),
    ("metadata", "uid"),
    ("metadata", "odd"),
    ("status",),
    ("spec",),
    ("spec", "odd"),
    ("spec", "clusterRef"),
    ("spec", "clusterRef", "name"),
    ("spec", "entity"),
    ("spec", "entity", "user"),
    ("spec", "entity", "user", "name"),
    ("spec", "entity", "user", "default"),
    ("spec", "entity", "clientId"),
    ("spec", "entity", "clientId", "name"),
    ("spec", "entity", "clientId", "default"),
    ("spec", "entity", "ip"),
    ("spec", "entity", "ip", "name"),
    ("spec", "entity", "ip", "default"),
    ("spec", "limits"),
    ("spec", "limits", "producerByteRate"),
    ("spec", "limits", "consumerByteRate"),
    ("spec", "limits", "requestPercentage"),
    ("spec", "limits", "controllerMutationRate"),
    ("spec", "limits", "connectionCreationRate"),
    ("spec", "limits", "odd"),
    ("spec", "deletionPolicy"),
    ("spec", "suspend"),
    ("spec", "until"),
    ("spec", "clusterSelector"),
    ("spec", "clusterSelector", "odd"),
    ("spec", "clusterSelector", "matchLabels"),
    ("spec", "clusterSelector", "matchLabels", "tier"),
    ("spec", "clusterSelector", "matchExpressions"),
    ("spec", "clusterLimits"),
)
requirements = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(("tier", "", 5)),
            "operator": st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "in")),
        },
        optional={
            "values": st.lists(st.sampled_from(("eu", "", 5, "x" * 64)), max_size=2),
            "odd": st.none(),
        },
    ),
    max_size=2,
)
selectors = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.dictionaries(
            st.sampled_from(("tier", "true")),
            st.sampled_from(("prod", "", 5, "x" * 64)),
            max_size=2,
        ),
        "matchExpressions": requirements,
    },
)
cluster_limits = st.lists(
    st.fixed_dictionaries(
        {
            "limits": st.sampled_from(
                (
                    {"producerByteRate": 5},
                    {"requestPercentage": 0},
                    {"connectionCreationRate": 5},
                    {},
                )
            )
        },
        optional={
            "clusterRef": st.sampled_from(({"name": "a"}, {"name": "A"}, {})),
            "clusterSelector": selectors,
        },
    ),
    max_size=2,
)


@st.composite
def almost_right(draw: st.DrawFn) -> dict[str, Any]:
    """A valid resource with up to four fields replaced, added or removed."""
    form = draw(st.sampled_from(FORMS))
    limits = (
        {"connectionCreationRate": 5}
        if "ip" in form
        else {"producerByteRate": "10Mi", "requestPercentage": 5.5}
    )
    document: dict[str, Any] = quota(
        entity={slot: dict(fields) for slot, fields in form.items()}, limits=limits
    )
    if draw(st.booleans()):
        document["spec"] |= {
            "clusterSelector": draw(selectors),
            "clusterLimits": draw(cluster_limits),
        }
        del document["spec"]["clusterRef"]
    for _ in range(draw(st.integers(0, 4))):
        path = draw(st.sampled_from(PATHS))
        above: Any = document
        for step in path[:-1]:
            above = above.setdefault(step, {}) if isinstance(above, dict) else None
        if isinstance(above, dict):
            if draw(st.booleans()) and path[-1] in above:
                del above[path[-1]]
            else:
                above[path[-1]] = draw(junk)
    return document


def agreed(root: Node) -> bool:
    """The verdict on a document, after checking that the check and the schema with its rules agree."""
    try:
        from_node(root, "f")
        by_hand = True
    except DocumentDeclined:
        by_hand = False
    problems = explanation.problems("ClientQuota", root, "f")
    assert by_hand is (not problems), problems
    return by_hand


@given(almost_right())
def test_check_schema_and_rules_give_the_same_verdict_on_resources(
    document: dict[str, Any],
) -> None:
    agreed(from_json(document))


plain_texts = st.sampled_from((*REFUSED, *TEXT, "true", "10Mi", "50.5", "Delete", "a", "5"))


@given(
    almost_right(),
    st.lists(st.tuples(st.sampled_from(PATHS), plain_texts, st.booleans()), max_size=3),
)
def test_check_schema_and_rules_give_the_same_verdict_on_scalars_as_written(
    document: dict[str, Any], written: list[tuple[tuple[str, ...], str, bool]]
) -> None:
    root = from_json(document)
    for path, text, plain in written:
        root = _replaced(root, path, ScalarNode(text, plain, 3, 7))
    agreed(root)


def _replaced(root: Node, path: tuple[str, ...], value: Node) -> Node:
    if not path:
        return value
    if not isinstance(root, MappingNode):
        return root
    entries = dict(root.entries)
    old = entries.get(path[0])
    below = (
        _replaced(old.value, path[1:], value)
        if old is not None
        else value
        if len(path) == 1
        else None
    )
    if below is not None:
        entries[path[0]] = MappingEntry(ScalarNode(path[0], plain=True, line=2, column=1), below)
    return MappingNode(entries, root.line, root.column)


@given(declarations())
def test_a_written_manifest_is_accepted_by_all_validators(declaration: Any) -> None:
    nodes, problems = reading(document_text(declaration, cluster="prod"))
    assert not problems
    assert agreed(nodes[0])
