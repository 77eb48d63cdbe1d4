"""Every error ends with a sentence that names cause, place and next step: exit code 1, no traceback, no change."""

from pathlib import Path

import pytest

from reconciler.sandbox import (
    READER,
    Authorizer,
    Fault,
    Listener,
    ListenerProtocol,
    SandboxSettings,
)
from reconciler.sandbox.faults import CutBefore, Delay, Truncate, WrongCorrelation
from tests.cli.brokers import SandboxThread
from tests.cli.projects import manifests, project, quota

PLANTED = "planted-secret-7f3a"
WRONG = "wrong-secret-91bc"
SASL = """\
  properties:
    security.protocol: SASL_PLAINTEXT
    sasl.mechanism: {mechanism}
    sasl.username: {user}
    sasl.password: {password}
"""


@pytest.fixture
def guarded():
    """A sandbox with users: `reader` may read, `nobody` has no rights."""
    settings = SandboxSettings(
        listeners=(Listener(name="SASL", protocol=ListenerProtocol.SASL_PLAINTEXT),),
        users={"reader": PLANTED, "nobody": PLANTED},
        authorizer=Authorizer(grants={"reader": READER}),
        cluster_id="AAAAAAAAAAAAAAAAAAAAAA",
    )
    with SandboxThread(settings) as running:
        yield running


def sasl(user: str, password: str, mechanism: str = "SCRAM-SHA-512") -> str:
    return SASL.format(user=user, password=password, mechanism=mechanism)


def assert_failure(ran, *words: str, code: int = 1) -> None:
    """The rules for every failure."""
    assert ran.code == code, ran
    assert "Traceback" not in ran.out + ran.err
    assert "internal error" not in ran.err
    for word in words:
        assert word in ran.err, ran.err


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_reported_immediately(kquota, folder, guarded, mechanism):
    project(folder, guarded.bootstrap, quota("a"), more=sasl("reader", WRONG, mechanism))
    for command in (("plan",), ("apply", "--yes"), ("drift",), ("describe",), ("snapshot",)):
        assert_failure(kquota(*command, "--timeout", "20s"), "failed", "hint: ")
    assert guarded.values() == {}


def test_an_unreachable_broker_is_named(kquota, folder):
    project(folder, "127.0.0.1:1", quota("a"))
    assert_failure(kquota("plan", "--timeout", "2s"), "127.0.0.1:1", "Connection refused", "hint: ")


def test_an_unresolvable_name_is_reported(kquota, folder):
    project(folder, "no-such-host.invalid:9092", quota("a"))
    assert_failure(kquota("plan", "--timeout", "2s"), "no-such-host.invalid")


def test_a_missing_right_to_read_is_named(kquota, folder, guarded):
    project(folder, guarded.bootstrap, quota("a"), more=sasl("nobody", PLANTED))
    assert_failure(kquota("plan"), "DescribeConfigs")


def test_a_missing_right_to_write_is_named_and_nothing_is_recorded(kquota, folder, guarded):
    project(folder, guarded.bootstrap, quota("a"), more=sasl("reader", PLANTED))
    assert "sandbox 4.x" in kquota("plan").out.splitlines()[0]
    assert_failure(kquota("apply", "--yes"), "AlterConfigs")
    assert guarded.values() == {}
    assert "0 managed quota keys" in kquota("drift").out


@pytest.mark.parametrize(
    ("effect", "api"),
    [
        (Truncate(keep=10), 3),
        (CutBefore(), 18),
        (WrongCorrelation(), 48),
        (Truncate(keep=10), 48),
        (Delay(seconds=3), 60),
    ],
    ids=repr,
)
def test_a_malformed_response_is_an_error_and_nothing_is_written(
    kquota, folder, sandbox, effect, api
):
    project(folder, sandbox.bootstrap, quota("a"))
    sandbox.fail(Fault(effect=effect, api=api, times=-1))
    assert_failure(kquota("apply", "--yes", "--timeout", "400ms"))
    assert sandbox.values() == {}


def test_a_port_that_speaks_another_protocol_gets_a_hint(kquota, folder, guarded):
    project(folder, guarded.bootstrap, quota("a"))
    assert_failure(kquota("plan", "--timeout", "2s"), "hint: ", "SASL")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "kquota.yaml"),
        ("apiVersion: v1\nkind: [", "kquota.yaml:3"),
        ("kind: ClientQuota\n", "kquota.yaml:1"),
        (
            "apiVersion: kafka-quotas.io/v1alpha1\nkind: QuotaCluster\nmetadata: {name: x}\nspec: {}\n",
            "bootstrapServers",
        ),
        ("\x00", "kquota.yaml"),
    ],
)
def test_an_invalid_project_file_is_reported_with_its_line(kquota, folder, text, message):
    (folder / "kquota.yaml").write_text(text)
    assert_failure(kquota("plan"), message)


def test_a_missing_variable_is_named(kquota, folder):
    project(folder, "${env:NO_SUCH_VARIABLE}", quota("a"))
    assert_failure(kquota("plan"), "NO_SUCH_VARIABLE")


def test_a_project_file_that_is_a_folder_is_reported(kquota, folder):
    (folder / "kquota.yaml").mkdir()
    assert_failure(kquota("plan"), "kquota.yaml")


def test_a_manifest_that_is_not_text_is_reported(kquota, folder, sandbox):
    project(folder, sandbox.bootstrap)
    (folder / "quotas/bad.yaml").write_bytes(b"a: \xff\xfe")
    assert_failure(kquota("plan"), "quotas/bad.yaml:1:4")


@pytest.mark.parametrize("option", ["--user", "--client-id"])
def test_a_client_whose_name_is_not_text_is_refused(kquota, folder, sandbox, option):
    project(folder, sandbox.bootstrap)
    assert_failure(kquota("resolve", option, "\udcff"), option, "is not UTF-8 text")


def test_damaged_records_are_never_read_as_empty(kquota, folder, sandbox):
    project(folder, sandbox.bootstrap, quota("a"))
    kquota("apply", "--yes")
    path = folder / ".kquota/inventory.json"
    path.write_bytes(path.read_bytes()[:-20])
    manifests(folder, quota("a", "{producerByteRate: 20Mi}"))
    for command in (("plan",), ("apply", "--yes"), ("drift",)):
        assert_failure(kquota(*command), "inventory.json")
    assert list(sandbox.values().values()) == [{"producer_byte_rate": 10485760.0}]


def test_a_folder_that_cannot_be_written_is_reported_before_anything_is_sent(
    kquota, folder, sandbox
):
    project(folder, sandbox.bootstrap, quota("a"))
    (folder / ".kquota").write_text("a file where a folder should be")
    assert_failure(kquota("apply", "--yes"), ".kquota")
    assert sandbox.values() == {}


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "--all", "--cluster", "x"),
        ("plan", "--bootstrap-server", "x:1", "--project", "y"),
        ("plan", "--snapshot", "x.json"),
        ("plan", "--max-removals", "-1"),
        ("plan", "--only", "alice"),
        ("plan", "--policy", "Yolo"),
        ("plan", "--timeout", "soon"),
        ("plan", "--bootstrap-server", "no-port", "x.yaml"),
        ("plan", "--cluster", "nope"),
        ("apply", "missing.json", "--yes"),
        ("describe", "--exactly"),
        ("describe", "--format", "xml"),
        ("describe", "--command-config", "missing.properties"),
        ("rollback",),
        ("completion", "tcsh"),
        ("sandbox", "--behave-as", "0.8"),
        ("sandbox", "--user", "x"),
        ("sandbox", "--cluster-id", "short"),
        ("sandbox", "--host", "192.0.2.1"),
    ],
    ids=" ".join,
)
def test_a_usage_error_exits_1_with_a_message(kquota, folder, arguments):
    project(folder, "127.0.0.1:1", quota("a"))
    assert_failure(kquota(*arguments), "error: ")


COMMANDS = [
    ("plan", "--format", "json", "--out", "plan.json"),
    ("apply", "--yes"),
    ("drift",),
    ("describe",),
    ("snapshot", "--out", "s.json"),
    ("export",),
    ("resolve", "--user", "a"),
    ("doctor", "--format", "json"),
    ("validate",),
    ("override", "user=a", "producer_byte_rate=1Mi", "--for", "1h", "--reason", "x", "--yes"),
    ("plan", "--offline"),
]


def grep(folder, ran) -> list[str]:
    """Where a planted secret appears: in output or in written files."""
    texts = {"stdout": ran.out, "stderr": ran.err}
    texts |= {
        str(path): path.read_text(errors="replace")
        for path in folder.rglob("*")
        if path.is_file() and path.name not in {"kquota.yaml", "client.properties"}
    }
    return [name for name, text in texts.items() if PLANTED in text or WRONG in text]


@pytest.mark.parametrize(
    ("mechanism", "password", "debug"),
    [
        pytest.param("PLAIN", PLANTED, "1", id="right"),
        pytest.param("PLAIN", WRONG, "", id="wrong"),
        pytest.param("SCRAM-SHA-512", PLANTED, "", id="right SCRAM"),
        pytest.param("SCRAM-SHA-512", WRONG, "1", id="wrong SCRAM"),
    ],
)
def test_no_command_prints_or_writes_a_password(
    kquota, guarded, monkeypatch, *, mechanism, password, debug
):
    folder = Path.cwd()
    monkeypatch.setenv("KQUOTA_DEBUG", debug)
    project(folder, guarded.bootstrap, quota("a"), more=sasl("reader", password, mechanism))
    for command in COMMANDS:
        ran = kquota(*command, *([] if command[0] == "validate" else ["--timeout", "5s"]))
        assert grep(folder, ran) == [], command


@pytest.mark.parametrize(
    "line",
    [
        'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password={};',
        'sasl.jaas.config=no.such.Module required password="{}";',
        "sasl.jaas.config=broken {}",
        "sasl.password={}\nsasl.mechanism=NO-SUCH",
        "ssl.keystore.password={}\nssl.keystore.location=/no/such/file\nsecurity.protocol=SSL",
        "sasl.pasword={}",
        "ssl.keystore.key={}\nssl.keystore.type=PEM\nssl.keystore.certificate.chain=x\nsecurity.protocol=SSL",
    ],
    ids=lambda line: line[:40],
)
def test_an_invalid_properties_file_does_not_print_its_secret(kquota, folder, monkeypatch, line):
    monkeypatch.setenv("KQUOTA_DEBUG", "1")
    (folder / "client.properties").write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n" + line.format(PLANTED) + "\n"
    )
    where = ("--bootstrap-server", "127.0.0.1:1", "--command-config", "client.properties")
    ran = kquota("describe", *where, "--timeout", "300ms")
    assert ran.code == 1
    assert grep(folder, ran) == []
