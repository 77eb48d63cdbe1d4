"""Names in labels: Kafka's names are decoded; impossible labels are refused."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.evidence.ingest import dialect
from tests.evidence.ingest.kafka_names import jmx, quoted, sanitized

ANY = st.text(st.characters(exclude_categories=["Cs"]))


@given(ANY)
@example("CN=al ice,O=x~*+%?")
@example("ü\n" * 100)
def test_every_user_is_read_back(name: str) -> None:
    assert dialect.percent_decoded(sanitized(name)) == name


@given(ANY)
@example('x",user="admin')
@example("a*b?c\\n\n\\")
@example("producer-\u2028ü,=:" * 1000)
def test_every_client_id_is_read_back(name: str) -> None:
    assert dialect.unquoted(jmx(name)) == name


@given(ANY)
def test_a_decoded_user_is_encoded_to_the_same_text_by_kafka(text: str) -> None:
    user = dialect.percent_decoded(text)
    assert user is None or sanitized(user) == text


@given(st.one_of(ANY, ANY.map(quoted)))
def test_a_decoded_client_id_is_encoded_to_the_same_text_by_jmx(text: str) -> None:
    client_id = dialect.unquoted(text)
    assert client_id is None or jmx(client_id) == text


@pytest.mark.parametrize(
    "text", ["%", "%4", "%zz", "%ff", "%C3", "%2a", "a b", "a+b", "%41", 'a"', "ü", "a,b"]
)
def test_a_user_that_is_not_percent_encoded_as_by_kafka_is_refused(text: str) -> None:
    assert dialect.percent_decoded(text) is None


@pytest.mark.parametrize(
    "text",
    [
        'y"',
        '"',
        '"a',
        "a,b",
        "a=b",
        '"a"b"',
        '"a\\"',
        '"a\\x"',
        '"*"',
        '"plain"',
        "ü",
        "a\nb",
        '"a\nb"',
    ],
)
def test_a_client_id_that_is_not_quoted_as_by_jmx_is_refused(text: str) -> None:
    assert dialect.unquoted(text) is None


@given(ANY)
def test_a_part_of_a_forged_client_id_from_a_greedy_rule_is_refused(before: str) -> None:
    bean = f"type=Produce, user=eve, client-id={jmx(before + ', client-id=admin')}"
    _, _, cut = bean.rpartition("client-id=")
    assert dialect.unquoted(cut) is None


@pytest.mark.parametrize(
    ("text", "address"),
    [("10.0.0.1", "10.0.0.1"), ('"2001:db8:0::1"', "2001:db8::1"), ("2001:DB8::1", "2001:db8::1")],
)
def test_addresses_are_read_in_canonical_form(text: str, address: str) -> None:
    assert dialect.address(text) == address


def test_invalid_addresses_are_refused() -> None:
    assert dialect.address("localhost") is None
