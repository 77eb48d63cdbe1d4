"""A written document reads back equal; values that cannot be written are listed."""

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.manifest.loader import load_files
from reconciler.manifest.writer import document_text, documents_text, export, number, scalar
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.state import Limits, QuotaState
from tests.manifest.samples import declarations, entities, limits_for, without_place

LIMIT: Limits = (1024.0, None, None, None, None)


@given(st.lists(declarations(), max_size=6, unique_by=lambda declaration: declaration.document))
def test_a_written_manifest_is_read_back_unchanged(several: list[Declaration]) -> None:
    loaded = load_files([("f", documents_text(several, cluster="prod"))])
    assert loaded.problems == ()
    assert [without_place(declaration) for declaration in loaded.of("prod")] == several


def test_a_name_too_long_for_one_line_with_its_value_is_written_and_read_back() -> None:
    annotations = (("a" * 5000, "x"), ("b", "y"))
    declaration = Declaration(
        document="a/b",
        entity=entity(user="u"),
        limits=LIMIT,
        labels=(("c", "d"),),
        annotations=annotations,
    )
    text = document_text(declaration, cluster="prod")
    (declared,) = load_files([("f", text)]).checked().of("prod")
    assert declared.annotations == annotations
    assert yaml.safe_load(text)["metadata"]["annotations"] == dict(annotations)


@st.composite
def states(draw: st.DrawFn) -> QuotaState:
    return QuotaState(
        limits={
            subject: draw(limits_for(subject))
            for subject in draw(st.lists(entities, max_size=6, unique=True))
        }
    )


@given(states())
def test_an_export_reads_back_to_the_state(state: QuotaState) -> None:
    result = export(state, cluster="prod", namespace="exported")
    assert result.complete
    loaded = load_files([("f", result.text)])
    assert loaded.problems == ()
    assert {
        declaration.entity: declaration.limits for declaration in loaded.declarations
    } == state.limits
    assert len(result.declarations) == len(state.limits)


@given(states())
def test_an_export_is_the_same_every_time(state: QuotaState) -> None:
    again = QuotaState(limits=dict(reversed(list(state.limits.items()))))
    assert export(state, cluster="prod") == export(again, cluster="prod")


@given(st.text(max_size=20))
def test_a_scalar_is_read_as_the_same_text_by_pyyaml_in_block_and_flow(text: str) -> None:
    if re.search("[\ud800-\udfff]", text):
        return
    written = scalar(text)
    assert "\n" not in written
    assert yaml.safe_load(f"a: {written}\n") == {"a": text}
    assert yaml.safe_load(f"a: {{b: {written}, c: [{written}]}}\n") == {
        "a": {"b": text, "c": [text]}
    }


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("alice", "alice"),
        ("CN=a,O=b", '"CN=a,O=b"'),
        ("<default>", '"<default>"'),
        ("123", '"123"'),
        ("on", '"on"'),
        ("", '""'),
        ("a\nb", '"a\\nb"'),
        ("\x00\x07\x85", '"\\0\\x07\\x85"'),
        ("\u2028", '"\\u2028"'),
        ("\ufeff", '"\\uFEFF"'),
        ('"\\', '"\\"\\\\"'),
        ("é😀", '"é😀"'),
        (" a ", '" a "'),
        ("10.0.0.7", "10.0.0.7"),
        ("12:30", '"12:30"'),
    ],
)
def test_a_scalar_is_unquoted_only_if_it_is_unambiguous(text: str, written: str) -> None:
    assert scalar(text) == written


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (Key.PRODUCER_BYTE_RATE, 10485760.0, "10Mi"),
        (Key.PRODUCER_BYTE_RATE, 2.0**63, "9223372036854775807"),
        (Key.PRODUCER_BYTE_RATE, 20e6, "20M"),
        (Key.CONSUMER_BYTE_RATE, 999.0, "999"),
        (Key.CONNECTION_CREATION_RATE, 2e6, "2000000"),
        (Key.REQUEST_PERCENTAGE, 50.5, "50.5"),
        (Key.REQUEST_PERCENTAGE, 200.0, "200"),
        (Key.REQUEST_PERCENTAGE, 1e-7, "0.0000001"),
        (Key.CONTROLLER_MUTATION_RATE, 1e22, "10000000000000000000000"),
    ],
)
def test_a_number_is_written_in_its_usual_spelling(key: Key, value: float, text: str) -> None:
    assert number(key, value) == text


@pytest.mark.parametrize("value", [0.0, -1.0, 0.5, float("nan"), float("inf"), 2.0**64])
def test_a_number_that_is_invalid_in_a_manifest_is_not_written(value: float) -> None:
    with pytest.raises(QuotaValueError):
        number(Key.PRODUCER_BYTE_RATE, value)


def test_quotas_that_cannot_be_represented_are_listed_with_the_reason() -> None:
    alice = entity(user="alice")
    state = QuotaState(
        limits={
            alice: (1024.0, 1e-07, None, None, 5.0),
            entity(user=""): LIMIT,
            entity(user="é" * 257): LIMIT,
            entity(user="\ud800"): LIMIT,
            entity(ip="0:0:0:0:0:0:0:1"): (None, None, None, None, 5.0),
        },
        foreign_values={alice: (("odd_rate", 5.0),)},
        foreign_entities=(((("client-id-prefix", "a"),), (("producer_byte_rate", 5.0),)),),
    )
    result = export(state, cluster="prod")
    assert not result.complete
    assert len(result.declarations) == 1
    assert [(dict(pair.entity), pair.key, pair.reason) for pair in result.left_out] == [
        (
            {"client-id-prefix": "a"},
            "producer_byte_rate",
            "an entity type that manifests do not know",
        ),
        (
            {"ip": "0:0:0:0:0:0:0:1"},
            "connection_creation_rate",
            "an ip that is not an IP address in canonical form",
        ),
        ({"user": ""}, "producer_byte_rate", "an empty user name"),
        ({"user": "\ud800"}, "producer_byte_rate", "a user name that is not Unicode text"),
        (
            {"user": "alice"},
            "connection_creation_rate",
            "connectionCreationRate is not supported for this form of entity",
        ),
        (
            {"user": "alice"},
            "consumer_byte_rate",
            "consumerByteRate must be a whole number (bytes/s per broker)",
        ),
        ({"user": "alice"}, "odd_rate", "a quota key that manifests do not support"),
        ({"user": "é" * 257}, "producer_byte_rate", "a user name of more than 512 bytes"),
    ]
    assert {
        declaration.entity for declaration in load_files([("f", result.text)]).declarations
    } == {alice}


def test_an_entity_that_cannot_be_represented_is_an_error_for_a_single_document() -> None:
    with pytest.raises(QuotaValueError, match="an empty user name"):
        document_text(
            Declaration(document="a/b", entity=entity(user=""), limits=LIMIT), cluster="c"
        )


def test_progress_is_reported() -> None:
    steps: list[tuple[int, int]] = []
    export(
        QuotaState(limits={entity(user="a"): LIMIT}),
        cluster="c",
        progress=lambda done, total: steps.append((done, total)),
    )
    assert steps == [(0, 1)]


def test_a_value_within_kafkas_epsilon_of_a_whole_number_is_exported_as_that_number() -> None:
    alice = entity(user="alice")
    state = QuotaState(limits={alice: (1000000.0000005, 999999.9999995, 50.0000005, None, None)})
    result = export(state, cluster="prod")
    assert result.complete
    (read,) = load_files([("f", result.text)]).declarations
    assert read.limits == (1000000.0, 1000000.0, 50.0000005, None, None)
