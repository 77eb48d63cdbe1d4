"""Configurations of kafka-helmsman's quota enforcer."""

import pytest

from tests.manifest.foreign.import_results import limits, losses, notes, problems, read, sample

P = "producer_byte_rate"
C = "consumer_byte_rate"
REFUSED = (28, "", "has no clusters, which the enforcer refuses")


def test_overrides_take_precedence_over_quotas_and_quotas_over_defaults():
    result = read("helmsman", sample("helmsman.yaml"), cluster="west")
    assert limits(result) == {
        "user=billing,client-id=nightly": {P: 3000.0, C: 2000.0, "request_percentage": 400.0},
        "user=<default>": {P: 4000.0, C: 6000.0},
        "client-id=<default>": {P: 4000.0, C: 2000.0},
    }
    assert losses(result) == [(27, "disk-rate=7", "the tool has no such limit"), REFUSED]
    assert notes(result) == []


def test_a_quota_that_does_not_name_the_cluster_is_not_for_it():
    result = read("helmsman", sample("helmsman.yaml"), cluster="east")
    assert limits(result) == {
        "user=billing,client-id=nightly": {P: 4000.0, "request_percentage": 400.0}
    }
    text = "producerByteRate must be a whole number (bytes/s per broker)"
    assert losses(result) == [(25, f"{P}=1000.5", text), REFUSED]


def test_which_cluster_is_never_guessed():
    assert problems("helmsman", sample("helmsman.yaml")) == [
        "helmsman.yaml:11:0: the quotas are for several clusters (cluster of the enforcer): east, west"
    ]
    assert problems("helmsman", sample("helmsman.yaml"), cluster="north") == [
        "helmsman.yaml:11:0: there is no cluster of the enforcer 'north'; there is east, west"
    ]


def test_a_single_cluster_in_the_file_must_be_named_too():
    text = "quotas:\n- {principal: a, producer-byte-rate: 1024, clusters: {east: {}}}\n"
    assert "east" in problems("helmsman", text)[0]


def test_a_list_gets_its_defaults_from_the_configuration_that_names_it():
    configuration = "kafka: {}\nquotasFile: quotas.yaml\ndefaults: {request-percentage: 50}\n"
    quotas = "- {principal: a, producer-byte-rate: 1024}\n- {client: b, request-percentage: null, consumer-byte-rate: 2048}\n"
    result = read("helmsman", ("conf", configuration), ("list", quotas))
    assert limits(result) == {
        "user=a": {P: 1024.0, "request_percentage": 50.0},
        "client-id=b": {C: 2048.0},
    }
    assert limits(read("helmsman", quotas))["user=a"] == {P: 1024.0}


@pytest.mark.parametrize(
    ("quota", "message"),
    [
        ("{producer-byte-rate: 1024}", "neither principal nor client"),
        ("{principal: '', producer-byte-rate: 1024}", "an empty user name"),
        ("{principal: yes, producer-byte-rate: 1024}", "'yes' is not a string"),
        ("{principal: a, producer-byte-rate: 10MB}", "not a decimal number"),
        ("{principal: a, producer-byte-rate: 0}", "must be greater than 0"),
        ("{principal: a, producer_byte_rate: 1024}", "the tool has no such limit"),
        ("[a]", "expected a mapping"),
    ],
)
def test_an_unsupported_quota_is_a_loss_at_its_line(quota, message):
    result = read("helmsman", f"quotas:\n- {quota}\n")
    assert [line for line, _, _ in losses(result)] == [2]
    assert message in losses(result)[0][2]


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (
            ["kafka: {}\nquotasFile: q.yaml\n"],
            "f:2:13: the quotas are in a separate file; pass it, too",
        ),
        (["quotas: []\n", "quotas: []\n"], "f:1:1: several configurations; pass one at a time"),
        (["kafka: {}\n"], "f:1:1: quotasFile is missing"),
        (["quotas: 7\n"], "f:1:9: expected a list"),
        (["quotas: []\n"], "f:0:0: nothing about quotas as helmsman writes them"),
        (["just words\n"], "f:1:1: expected a mapping"),
    ],
)
def test_files_without_a_configuration_are_an_error_with_their_place(texts, problem):
    assert problems("helmsman", *texts) == [problem]
