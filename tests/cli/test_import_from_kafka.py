"""kquota import of the output of Kafka's own kafka-configs, against the export of the same cluster."""

import pytest

from tests.servers import tools

USERS, CLIENTS, IPS = (
    ("--entity-type", "users"),
    ("--entity-type", "clients"),
    ("--entity-type", "ips"),
)
KINDS = (USERS, (*USERS, *CLIENTS), CLIENTS, IPS)
LIVE = {
    (("user", None),): {"producer_byte_rate": 1024.0, "request_percentage": 50.5},
    (("user", "<default>"),): {"producer_byte_rate": 2.0**63},
    (("user", "CN=o'neil, O=Acme"),): {
        "consumer_byte_rate": 1e7,
        "controller_mutation_rate": 0.001,
    },
    (("user", "%3Cdefault%3E"), ("client-id", " are x=1")): {"consumer_byte_rate": 123456789.0},
    (("user", "a"), ("client-id", None)): {"request_percentage": 1e-5},
    (("user", None), ("client-id", "b")): {"request_percentage": 200.0},
    (("user", None), ("client-id", None)): {"producer_byte_rate": 10000000.0},
    (("client-id", "ünï, 😀"),): {"producer_byte_rate": 9999999.0},
    (("client-id", None),): {"producer_byte_rate": 4096.0},
    (("ip", "::1"),): {"connection_creation_rate": 2147483647.0},
    (("ip", None),): {"connection_creation_rate": 100.0},
}


@pytest.mark.integration
@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
def test_the_output_of_kafka_configs_imports_to_the_same_as_an_export(kquota, sandbox, version):
    sandbox.seed(LIVE)
    printed = ""
    for kind in KINDS:
        answer = tools.kafka_configs(
            version, "--bootstrap-server", sandbox.bootstrap, "--describe", *kind
        )
        assert answer.returncode == 0, answer.stderr
        printed += answer.stdout
    imported = kquota("import", "--from", "kafka-configs", "--cluster", "prod", "-", stdin=printed)
    assert imported.code == 0
    (note,) = imported.err.splitlines()  # Kafka prints a user with this name in the same way
    assert note.startswith("warning: (standard input):6: user=%3Cdefault%3E,client-id=")
    live = kquota("export", "--bootstrap-server", sandbox.bootstrap, "--cluster", "prod")
    assert imported.out == live.out
    assert imported.out.count("kind: ClientQuota") == len(LIVE)
