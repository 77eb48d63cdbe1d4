"""kafka-client-quotas against the sandbox and a real broker: the KIP's examples, unusual names, refusals."""

import pytest

from reconciler.cli import client_quotas
from reconciler.sandbox import SandboxSettings, profile_named
from tests.cli.brokers import SandboxThread
from tests.cli.kip_examples import EXAMPLES


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_example_of_the_kip_prints_the_output_of_the_kip(name, sandbox, kip):
    example = EXAMPLES[name]
    sandbox.seed(dict(example.before))
    ran = kip(*example.arguments)
    assert (ran.code, ran.out, ran.err) == (0, example.prints, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--names=user=a", "--add=no_such_key=1"), "Invalid configuration key no_such_key"),
        (("--names=user=a", "--add=producer_byte_rate=1.5"), "producer_byte_rate"),
        (("--names=ip=1.2.3.4", "--add=producer_byte_rate=1"), "producer_byte_rate"),
        (("--names=ip=no.such.host.invalid", "--add=connection_creation_rate=1"), "not a valid IP"),
    ],
)
def test_a_rejection_is_printed_with_the_message_of_the_broker_and_exits_1(
    arguments, message, kip, sandbox
):
    ran = kip("--alter", *arguments)
    assert ran.code == 1
    assert message in ran.err
    assert ran.out == ""
    assert sandbox.values() == {}


def test_types_that_kafka_does_not_have_are_sent_and_rejected_with_the_message_of_the_broker(kip):
    ran = kip("--alter", "--names=group=g", "--add=producer_byte_rate=1")
    assert (ran.code, ran.out) == (1, "")
    assert "Unhandled client quota entity type: group" in ran.err
    ran = kip("--describe", "--names=group=g")
    assert (ran.code, ran.out) == (1, "")
    assert "Unsupported entity type group" in ran.err
    ran = kip("--alter", "--names=ip=1.2.3.4,user=a", "--add=connection_creation_rate=1")
    assert "IP entity shouldnot be combined" in ran.err


def test_validate_only_leaves_locally_refused_values_to_the_broker(kip):
    ran = kip("--alter", "--names=user=a", "--add=producer_byte_rate=0", "--validate-only")
    assert "must be greater than 0" in ran.err
    assert kip("--alter", "--names=user=a", "--add=producer_byte_rate=0").code == 1


def test_the_sandbox_with_an_extra_type_sets_describes_and_removes_it(capsys, folder):
    settings = SandboxSettings(profile=profile_named("redpanda"))
    with SandboxThread(settings) as redpanda:
        at = ("--bootstrap-server", redpanda.bootstrap)
        assert (
            client_quotas.main(
                [*at, "--alter", "--names=client-id-prefix=etl-", "--add=producer_byte_rate=5"]
            )
            == 0
        )
        assert client_quotas.main([*at, "--describe", "--any=client-id-prefix"]) == 0
        assert capsys.readouterr().out == "{client-id-prefix=etl-}\nproducer_byte_rate=5\n"
        assert (
            client_quotas.main(
                [*at, "--alter", "--names=client-id-prefix=etl-", "--delete=producer_byte_rate"]
            )
            == 0
        )
        assert redpanda.values() == {}


PREFIX = {(("client-id-prefix", "etl-"),): {"producer_byte_rate": 3}}


def test_resolve_warns_that_a_limit_of_another_type_may_apply(sandbox, kip):
    sandbox.seed(
        PREFIX | {(("client-id", None),): {"producer_byte_rate": 1, "consumer_byte_rate": 2}}
    )
    ran = kip("--resolve", "--names=client-id=etl-1")
    assert ran.out == "consumer_byte_rate=2 {client-id=<default>}\n"
    assert "the effective producer_byte_rate is unknown, because client-id-prefix=etl-" in ran.err
    assert "producer_byte_rate=1" in kip("--resolve", "--names=client-id=web").out
