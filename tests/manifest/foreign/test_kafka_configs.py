"""The lines that kafka-configs prints."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.manifest.foreign.import_results import limits, losses, notes, read, sample
from tests.manifest.samples import ODD_NAMES

P = "producer_byte_rate"
C = "consumer_byte_rate"


def test_every_form_of_entity_and_numbers_of_java_are_read_as_in_the_cluster():
    result = read("kafka-configs", sample("kafka-configs.txt"))
    assert limits(result) == {
        "user=billing,client-id=nightly export": {"request_percentage": 12.5},
        "user=billing,client-id=<default>": {"request_percentage": 25.0},
        'user="<default>"': {P: 2048.0},
        'user="CN=o\'neil, O=Acme"': {"controller_mutation_rate": 0.5},
        "user=billing": {P: 1e7, C: 20971520.0},
        "user=<default>,client-id=probe": {"request_percentage": 1.0},
        "user=<default>,client-id=<default>": {C: 4096.0},
        "user=<default>": {P: 1048576.0, "request_percentage": 50.0},
        "client-id=legacy%20app": {P: 2.0**63},
        "client-id=<default>": {C: 8192.0},
        "ip=10.0.0.7": {"connection_creation_rate": 20.0},
        "ip=<default>": {"connection_creation_rate": 100.0},
    }
    # The only pair of two names; every other line has only one reading.
    assert [(line, text.partition(";")[0]) for line, text in notes(result)] == [
        (7, "read as a pair of user and client-id")
    ]


def test_the_forms_of_older_versions_are_read():
    text = "\n".join(
        [
            'Defaulted container "kafka" out of: kafka, init',
            "OpenJDK 64-Bit Server VM warning: Sharing is only supported for boot loader classes",
            f"Configs for user-principal 'u', default client-id are {P}=1024,{C}=2048",
            f"Configs for default user-principal, client-id 'c' are {P}=1024",
            f"Configs for default client-id are {P}=1024.0,request_percentage=1.5",
            f"Configs for clients:mobile app are {P}=1024,{C}=2048",
        ]
    )
    result = read("kafka-configs", text)
    assert limits(result) == {
        "user=u,client-id=<default>": {P: 1024.0, C: 2048.0},
        "user=<default>,client-id=c": {P: 1024.0},
        "client-id=<default>": {P: 1024.0, "request_percentage": 1.5},
        "client-id=mobile app": {P: 1024.0, C: 2048.0},
    }
    assert not losses(result)


def test_a_repeated_line_is_reported_once_and_two_values_are_a_loss():
    line = f"Quota configs for client-id 'c' are {P}=2048.0\n"
    assert losses(read("kafka-configs", line + line)) == []
    second_line = line.replace("2048", "4096")
    result = read("kafka-configs", line + second_line)
    assert limits(result) == {"client-id=c": {P: 2048.0}}
    assert losses(result) == [
        (2, "", "other limits for the same entity are at f:1; those are used")
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Error while executing config command", "not a line about quotas"),
        ("b' are producer_byte_rate=1.0", "not a line about quotas"),
        ("Quota configs for user-principal 'a", "entity or limits are not written"),
        (
            "Quota configs for user-principal 'a' are producer_byte_rate",
            "entity or limits are not written",
        ),
        (
            "Quota configs for topic 'a' are producer_byte_rate=1.0",
            "entity or limits are not written",
        ),
        (
            "Quota configs for user-principal 'a'b', client-id 'c' are producer_byte_rate=1.0",
            "a quote inside a name",
        ),
        ("Quota configs for user-principal 'a' are producer_byte_rate=NaN", "not a decimal number"),
        (
            "Quota configs for user-principal 'a' are producer_byte_rate=-1.0",
            "must be greater than 0",
        ),
        (
            "Quota configs for user-principal 'a' are producer_byte_rate=1.0E400",
            "must be a finite number",
        ),
        (
            "Quota configs for user-principal 'a' are producer_byte_rate=2048.0, producer_byte_rate=1.0",
            "given twice",
        ),
        (
            "Quota configs for user-principal 'a' are connection_creation_rate=1.0",
            "is not supported for this form",
        ),
        (
            "Quota configs for ip '0:0::1' are connection_creation_rate=1.0",
            "not an IP address in canonical",
        ),
    ],
)
def test_an_unsupported_line_is_a_loss_at_its_place(line, message):
    result = read("kafka-configs", f"\n{line}\n")
    assert [number for number, _, _ in losses(result)] == [2]
    assert message in losses(result)[0][2]


def test_an_unknown_line_is_not_printed_because_it_may_contain_a_secret():
    result = read(
        "kafka-configs",
        "Configs for user-principal 'a' are SCRAM-SHA-256=salt=c2FsdA==,stored_key=c2VjcmV0",
    )
    assert "c2VjcmV0" not in repr(result.losses)
    assert result.losses


def quotable(name: str) -> bool:
    return not {"'", "\n", "\r"} & set(name)


names = st.one_of(
    st.sampled_from(
        [
            *filter(quotable, ODD_NAMES),
            "x are y=1",
            "a, client-id ",
            " are ",
            "the default client-id",
        ]
    ),
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="'\n\r"), min_size=1),
)


@given(user=names, client=names)
def test_any_name_without_quotes_and_line_breaks_is_read_back(user, client):
    result = read(
        "kafka-configs",
        f"Quota configs for user-principal '{user}', client-id '{client}' are {P}=2048.0\n"
        f"Quota configs for user-principal '{user}' are {P}=1024.0\n",
    )
    assert {declaration.entity for declaration in result.declarations} == {
        (user, client, False),
        (user, False, False),
    }
    assert not result.losses
    assert len(limits(result)) == 2
