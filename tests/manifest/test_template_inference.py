"""What is learned from a document holds for the next: the quick reader and the strict one are one."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.manifest import template_inference
from reconciler.manifest.loader import LoadedManifests, load_files
from reconciler.manifest.syntax.yaml_parser import DocumentText
from reconciler.manifest.template_inference import TemplateCache
from tests.manifest.samples import ODD_NAMES

LAYOUTS = {
    "flow": (
        "---\napiVersion: kafka-quotas.io/v1alpha1\nkind: ClientQuota\nmetadata: {name: @, namespace: @}\nspec:\n"
        "  clusterRef: {name: @}\n  entity:\n    user: {name: @}\n    clientId: {name: @}\n  limits:\n"
        "    producerByteRate: @\n    requestPercentage: @\n"
    ),
    "block": (
        "---\napiVersion: @\nkind: @\nmetadata:\n  name: @\n  labels:\n    team: @\n  annotations:\n    note: @\nspec:\n"
        "  clusterRef:\n    name: @\n  entity:\n    user:\n      name: @\n  limits:\n    consumerByteRate: @\n"
        "  deletionPolicy: @\n  suspend: @\n"
    ),
    "comments": (
        "--- # @\n# @\napiVersion: kafka-quotas.io/v1alpha1\nkind: ClientQuota\nmetadata: {name: @} # @\nspec: # name: @\n"
        "  clusterRef: {name: @} #@\n  entity:\n    # user: @\n    ip: {name: @}\n  limits:\n    connectionCreationRate: @ # @\n"
    ),
    "default": (
        "---\napiVersion: kafka-quotas.io/v1alpha1\nkind: ClientQuota\nmetadata: {name: @}\nspec: {clusterRef: {name: @},\n"
        "  entity: {user: {default: @}}, limits: {controllerMutationRate: @}}\n"
    ),
    "a block scalar that looks like fields": (
        "---\napiVersion: kafka-quotas.io/v1alpha1\nkind: ClientQuota\nmetadata:\n  name: @\n  annotations:\n    note: |\n"
        "      name: @\n      # @\nspec:\n  clusterRef: {name: prod}\n  entity: {user: {name: @}}\n  limits: {producerByteRate: @}\n"
    ),
    "a quoted text over lines that looks like fields": (
        "---\napiVersion: kafka-quotas.io/v1alpha1\nkind: ClientQuota\nmetadata:\n  name: @\n  annotations:\n    note: 'a\n"
        "      name: @\n      # @\n      b'\nspec:\n  clusterRef: {name: prod}\n  entity: {user: {name: @}}\n  limits: {producerByteRate: @}\n"
    ),
    "a plain text over lines": (
        "---\napiVersion: kafka-quotas.io/v1alpha1\nkind: ClientQuota\nmetadata: {name: @}\nspec:\n  clusterRef: {name: prod}\n"
        "  entity:\n    user:\n      name: @\n        more\n  limits: {producerByteRate: @}\n"
    ),
    "an anchor": (
        "---\napiVersion: kafka-quotas.io/v1alpha1\nkind: ClientQuota\nmetadata: {name: &n @}\nspec:\n  clusterRef: {name: prod}\n"
        "  entity: {user: &u {name: @}, clientId: *u}\n  limits: {producerByteRate: @}\n"
    ),
    "what a server writes": (
        "---\napiVersion: kafka-quotas.io/v1alpha1\nkind: ClientQuota\nmetadata: {name: @, uid: @}\nspec:\n  clusterRef: {name: prod}\n"
        "  entity: {user: {name: @}}\n  limits: {producerByteRate: @}\nstatus: {entity: @}\n"
    ),
    "keys in quotes and odd places": (
        '---\n"kind": ClientQuota\napiVersion: kafka-quotas.io/v1alpha1\nspec: {limits: {"producerByteRate": @},\n'
        "       entity: {clientId:   {name: @}}, clusterRef: {'name': @}}\nmetadata: {name: @}\n"
    ),
    "windows": (
        "---\r\napiVersion: kafka-quotas.io/v1alpha1\r\nkind: ClientQuota\r\nmetadata: {name: @}\r\nspec:\r\n  clusterRef: {name: prod}\r\n"
        "  entity: {user: {name: @}}\r\n  limits:\r\n    producerByteRate: @\r\n"
    ),
    "an unknown field": (
        "---\napiVersion: kafka-quotas.io/v1alpha1\nkind: ClientQuota\nmetadata: {name: @}\nspec: {clusterRef: {name: prod}, "
        "entity: {user: {name: @}}, limits: {producerByteRate: @}, extra: @}\n"
    ),
}  # fmt: skip

plain = st.sampled_from((
    "a", "b", "prod", "alice", "team-1.x", "User:a", "a::b", "10.0.0.7", "::1", "1::", "10Mi", "20000000", "50.5", "5", "true", "false",
    "Delete", "Retain", "ClientQuota", "kafka-quotas.io/v1alpha1", "CN=a,O=b", "a b", "a #b", "a, b", "a: b", "a:", "", "~", "123",
    "on", "1e7", "12:30", "010", "0", "-5", "8Ei", "1.5k", "{x}", "[x]", "&x y", "*x", "!x y", "|", ">-", "- a", "? a", "%x", "@x", "`x",
    '"', "'", "\t", "a\tb", "é", "x" * 70,
))  # fmt: skip
quoted = st.one_of(
    st.sampled_from(
        (
            *ODD_NAMES,
            "prod",
            "10Mi",
            "5",
            "Delete",
            "ClientQuota",
            "kafka-quotas.io/v1alpha1",
            "true",
        )
    ).map(lambda text: '"' + text.replace("\n", " ").replace("\r", "") + '"'),
    st.sampled_from(("a", "it's", "it''s", "a #b", "a: b", "", "10Mi", "10.0.0.7", '"')).map(
        lambda text: f"'{text}'"
    ),
    st.sampled_from(("\\n", "\\x41", "\\\\", '\\"')).map(lambda text: f'"{text}"'),
)
usual = st.sampled_from(("a", "b", "alice", "10Mi", "5", '"x y"', "'1'"))
values = st.one_of(usual, usual, plain, quoted)


@st.composite
def files(draw: st.DrawFn) -> str:
    """A few documents of one or two layouts, most of them correct, so that the second is read by what the first taught."""
    chosen = draw(st.lists(st.sampled_from(sorted(LAYOUTS)), min_size=1, max_size=2))
    documents = []
    for index in range(draw(st.integers(2, 5))):
        layout = LAYOUTS[chosen[index % len(chosen)]]
        parts = layout.split("@")
        right = _right(layout)
        wrong = draw(st.sets(st.integers(0, len(right) - 1), max_size=0 if index == 0 else 3))
        filled = [draw(values) if at in wrong else value for at, value in enumerate(right)]
        documents.append("".join(a + b for a, b in zip(parts, [*filled, ""], strict=True)))
    return "".join(documents)


def _right(layout: str) -> list[str]:
    """A correct value for each place of a layout."""
    wanted = (
        ("apiVersion: ", "kafka-quotas.io/v1alpha1"), ("kind: ", "ClientQuota"), ("ByteRate: ", "10Mi"), ("ByteRate\": ", "10Mi"),
        ("Percentage: ", "50.5"), ("MutationRate: ", "5"), ("CreationRate: ", "7"), ("deletionPolicy: ", "Delete"), ("suspend: ", "false"),
        ("default: ", "true"), ("ip: {name: ", "10.0.0.7"),
    )  # fmt: skip
    return [
        next((value for end, value in wanted if before.endswith(end)), "prod")
        for before in layout.split("@")[:-1]
    ]


@contextmanager
def strict_reader_only() -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.setattr(TemplateCache, "read", lambda *_: None)
    patch.setattr(TemplateCache, "learn", lambda *_: None)
    try:
        yield
    finally:
        patch.undo()


def both(text: str) -> LoadedManifests:
    quick = load_files([("f.yaml", text)], clusters=("prod", "a", "b"))
    with strict_reader_only():
        assert load_files([("f.yaml", text)], clusters=("prod", "a", "b")) == quick
    return quick


@given(files())
def test_the_quick_reader_gives_what_the_strict_one_gives(text: str) -> None:
    both(text)


@given(
    files(),
    st.lists(
        st.tuples(st.integers(0, 3000), st.sampled_from("\"'#:{}[],&*!|>%@`\n\t \\-x0\u2028\x85")),
        max_size=4,
    ),
)
def test_also_on_texts_with_stray_characters(text: str, strays: list[tuple[int, str]]) -> None:
    for anywhere, stray in strays:
        at = anywhere % len(text)
        text = text[:at] + stray + text[at:]
    both(text)


LEARNED = {"flow", "block", "comments", "default", "keys in quotes and odd places", "windows"}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_is_learned_exactly_where_it_can_be_proved(
    layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(
        a + b
        for a, b in zip(LAYOUTS[layout].split("@"), [*_right(LAYOUTS[layout]), ""], strict=True)
    )
    read = TemplateCache.read
    hits = []

    def watched(self: TemplateCache, piece: DocumentText, path: str) -> object:
        found = read(self, piece, path)
        hits.append(found is not None)
        return found

    monkeypatch.setattr(TemplateCache, "read", watched)
    load_files([("one.yaml", text), ("two.yaml", text)])
    assert hits[-1] is (layout in LEARNED)


def test_a_value_that_breaks_a_rule_is_told_by_the_strict_reader() -> None:
    good = "".join(
        a + b
        for a, b in zip(LAYOUTS["flow"].split("@"), [*_right(LAYOUTS["flow"]), ""], strict=True)
    )
    bad = good.replace("10Mi", "10MB")
    loaded = both(good.replace("{name: prod, namespace: prod}", "{name: x, namespace: prod}") + bad)
    assert [problem.line for problem in loaded.problems] == [23]
    assert len(loaded.declarations) == 1


def test_no_more_layouts_are_remembered_than_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_inference, "MAX_SHAPES", 2)
    good = "".join(
        a + b
        for a, b in zip(LAYOUTS["flow"].split("@"), [*_right(LAYOUTS["flow"]), ""], strict=True)
    )
    text = "".join(
        good.replace("name: prod, names", f"name: n{n}, names") + "\n" * n for n in range(5)
    )
    assert len(both(text).declarations) == 5
