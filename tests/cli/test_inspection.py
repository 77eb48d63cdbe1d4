"""describe, snapshot, resolve, export: the live quotas in four formats."""

import json

import pytest

from reconciler.codecs.state import read_state
from tests.cli.projects import project, quota

ODD = {
    (("user", "<default>"),): {"producer_byte_rate": 1024.0},
    (("user", None),): {"producer_byte_rate": 2048.0, "request_percentage": 50.5},
    (("user", "CN=a,O=b"), ("client-id", "x\ny")): {"consumer_byte_rate": 2.0**63},
    (("ip", "::1"),): {"connection_creation_rate": 5.0},
}
FOREIGN = {
    (("client-id-prefix", "p"),): {"producer_byte_rate": 1.0},
    (("user", ""),): {"producer_byte_rate": 1.0},
    (("user", "a"),): {"odd_key": 7.0, "producer_byte_rate": 1000.5},
}


@pytest.fixture
def at(sandbox):
    return "--bootstrap-server", sandbox.bootstrap


def test_describe_selects_entities_as_plan_does(kquota, sandbox, at):
    sandbox.seed(
        {
            (("user", "a"),): {"producer_byte_rate": 1.0},
            (("user", "a"), ("client-id", "b")): {"producer_byte_rate": 2.0},
            (("user", None),): {"producer_byte_rate": 3.0},
        }
    )
    words = ("--only", "user=a", "--only", "user=<default>", "--only", "user=none")
    document = json.loads(kquota("describe", *at, *words, "--format", "json").out)
    assert len(document["entries"]) == 2


def test_a_snapshot_is_read_back_completely(kquota, sandbox, at, folder):
    sandbox.seed(ODD | FOREIGN)
    assert kquota("snapshot", *at, "--out", "s.json").out == ""
    text = (folder / "s.json").read_text()
    assert text == kquota("snapshot", *at).out
    cluster_id, taken_at, state = read_state(text, location="s.json")
    assert (cluster_id, taken_at) == ("A" * 22, "")
    assert len(state.limits) == 6
    assert state.foreign_entities == (
        ((("client-id-prefix", "p"),), (("producer_byte_rate", 1.0),)),
    )


def test_a_snapshot_that_cannot_be_written_keeps_the_old_one(kquota, at, folder):
    (folder / "s").mkdir()
    ran = kquota("snapshot", *at, "--out", "s/no/s.json")
    assert ran.code == 1
    assert "s/no/s.json cannot be written: No such file or directory" in ran.err
    assert list((folder / "s").iterdir()) == []


@pytest.mark.parametrize(
    ("stdin", "message"),
    [
        ("", "must list columns"),
        ("usr\nx\n", "must list"),
        ("user,ip\na\n", "1 fields, not 2"),
        ("user,ip\na,\n,\n", "-:3: all fields are empty"),
        ("user\n" + "a" * 140_000, "-:2: not CSV"),
    ],
)
def test_an_invalid_list_of_clients_is_refused_with_its_line(kquota, at, stdin, message):
    ran = kquota("resolve", *at, "--from", "-", stdin=stdin)
    assert ran.code == 1
    assert message in ran.err


def test_resolve_requires_a_client(kquota, at):
    ran = kquota("resolve", *at)
    assert ran.code == 1
    assert "specify a client" in ran.err


def test_export_lists_what_it_cannot_represent_and_exits_1_unless_partial(kquota, sandbox, at):
    sandbox.seed(ODD | FOREIGN)
    ran = kquota("export", *at, "--cluster", "prod")
    assert ran.code == 1
    assert "client-id-prefix=p producer_byte_rate=1" in ran.err
    assert 'user="" producer_byte_rate=1' in ran.err
    assert "user=a odd_key=7" in ran.err
    partial = kquota("export", *at, "--cluster", "prod", "--partial")
    assert partial.code == 0
    assert partial.out == ran.out
    assert "warning: 4 values" in partial.err


LOOPBACK = {
    (("ip", "127.1"),): {"connection_creation_rate": 1.0},
    (("ip", None),): {"connection_creation_rate": 100.0},
}


def test_resolve_reports_that_another_spelling_leaves_the_limit_unknown(kquota, kip, sandbox, at):
    sandbox.seed(LOOPBACK)
    ran = kquota("resolve", *at, "--ip", "127.0.0.1")
    assert ran.code == 0
    assert "unknown" in ran.out
    assert "ip=<default> or ip=127.1" in ran.out
    assert "brokers apply to an address the limit written last" in ran.err
    (client,) = json.loads(kquota("resolve", *at, "--ip", "127.0.0.1", "--format", "json").out)[
        "clients"
    ]
    limit = client["limits"]["connection_creation_rate"]
    assert (limit["value"], limit["known"], len(limit["unranked"])) == (None, False, 1)
    old = kip("--resolve", "--names=ip=127.0.0.1")
    assert (old.out, "written last" in old.err) == ("", True)


def test_doctor_names_entities_that_leave_limits_unknown(kquota, sandbox, at):
    sandbox.seed({(("client-id-prefix", "etl-"),): {"producer_byte_rate": 3.0}})
    output = kquota("doctor", *at).out
    assert "client-id-prefix=etl-: its entity type is not one of Kafka's" in output
    sandbox.seed(LOOPBACK)
    assert "ip=127.1: its ip is a host name or another spelling" in kquota("doctor", *at).out


def test_a_client_id_without_a_user_is_resolved_as_the_anonymous_user(kquota, kip, sandbox, at):
    sandbox.seed(
        {
            (("user", None),): {"request_percentage": 0.01},
            (("client-id", "b"),): {"request_percentage": 10000.0},
        }
    )
    typed = kquota("resolve", *at, "--client-id", "b")
    of_file = kquota("resolve", *at, "--from", "-", stdin="client_id\nb\n")
    assert typed.out.startswith("user=ANONYMOUS,client-id=b\n")
    assert "default user" in typed.out
    assert "call a client ANONYMOUS if it does not authenticate" in typed.err
    assert (of_file.out, of_file.err) == (typed.out, typed.err)
    assert (
        kip("--resolve", "--names=client-id=b").out == "request_percentage=0.01 {user=<default>}\n"
    )


def test_export_requires_a_name_for_the_cluster(kquota, at):
    ran = kquota("export", *at)
    assert ran.code == 1
    assert "--cluster" in ran.err


def test_a_resolution_without_readable_records_says_that_a_limit_may_be_temporary(
    kquota, folder, sandbox
):
    project(folder, sandbox.bootstrap, quota("a"))
    assert kquota("apply", "--yes").code == 0
    (folder / ".kquota/inventory.json").write_text("{")
    ran = kquota("resolve", "--user", "a")
    assert (ran.code, "producer_byte_rate" in ran.out) == (0, True)
    assert "warning: whether a limit is temporary is unknown: " in ran.err
