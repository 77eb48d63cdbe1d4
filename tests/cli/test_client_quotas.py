"""kafka-client-quotas against the sandbox and a real broker: the KIP's examples, unusual names, refusals."""

import asyncio

import pytest

from reconciler.cli import client_quotas
from reconciler.client import ClientConfig, QuotaClient
from reconciler.quota.entity import from_parts
from reconciler.quota.state import Alteration, Applied
from reconciler.sandbox import SandboxSettings, profile_named
from tests.cli.brokers import SandboxThread
from tests.cli.kip_examples import EXAMPLES
from tests.servers.processes import HANG_SECONDS


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_example_of_the_kip_prints_the_output_of_the_kip(name, sandbox, kip):
    example = EXAMPLES[name]
    sandbox.seed(dict(example.before))
    ran = kip(*example.arguments)
    assert (ran.code, ran.out, ran.err) == (0, example.prints, "")


def put(bootstrap: str, values) -> None:
    async def work() -> None:
        config = ClientConfig.from_mapping({"bootstrap.servers": bootstrap})
        async with QuotaClient(config) as client:
            alterations = [Alteration(from_parts(p), tuple(limits.items())) for p, limits in values]
            results = await client.alter(alterations)
            assert set(results.values()) == {Applied()}
            await client.wait_visible(alterations, timeout=HANG_SECONDS)

    asyncio.run(work())


def test_validate_only_changes_nothing(sandbox, kip):
    ran = kip("--alter", "--names=user=a", "--add=producer_byte_rate=1000", "--validate-only")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert sandbox.values() == {}


def test_without_a_filter_everything_is_described_in_order_with_ips_and_foreign_keys(sandbox, kip):
    sandbox.seed(
        {
            (("ip", None),): {"connection_creation_rate": 5},
            (("user", "<default>"),): {"producer_byte_rate": 1, "odd_key": 2.5},
            (("user", None),): {"producer_byte_rate": 1},
            (("user", "CN=a,O=b"), ("client-id", "c d")): {"request_percentage": 50.5},
            (("client-id-prefix", "x*"),): {"producer_byte_rate": 3},
        }
    )
    assert kip("--describe").out == (
        '{user="CN=a,O=b", client-id=c d}\nrequest_percentage=50.5\n\n'
        '{user="<default>"}\nodd_key=2.5\nproducer_byte_rate=1\n\n'
        "{user=<default>}\nproducer_byte_rate=1\n\n"
        "{ip=<default>}\nconnection_creation_rate=5\n\n"
        "{client-id-prefix=x*}\nproducer_byte_rate=3\n"
    )


def test_names_with_commas_are_set_and_described(sandbox, kip):
    names = '--names=user="CN=a,O=b"'
    assert kip("--alter", names, "--add=producer_byte_rate=1024").code == 0
    assert list(sandbox.values()) == [(("user", "CN=a,O=b"),)]
    assert kip("--describe", names).out.startswith('{user="CN=a,O=b"}')


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
