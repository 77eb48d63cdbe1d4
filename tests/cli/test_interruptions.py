"""Ctrl-C, SIGTERM and kill -9 during an apply; the confirmation on a terminal. Whole processes against a sandbox."""

import asyncio
import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import pytest

from reconciler.base.clock import SystemClock
from reconciler.cli.change.apply_output import STOPPING
from reconciler.inventory.file import FileInventory, RecordsFile
from reconciler.kafka import ClientConfig, SyncQuotaClient
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import SETTLING_SECONDS, Intent, IntentStarted, Owner
from reconciler.quota.state import MAX_OPERATIONS
from tests.cli.projects import project, quota
from tests.servers.certs import Authority
from tests.servers.processes import HANG_SECONDS

DOCUMENTS = MAX_OPERATIONS + 500
KQUOTA = [sys.executable, "-m", "reconciler"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "CI"} | {
    "PYTHONPATH": str(Path(__file__).parents[2])
}


@pytest.fixture
def many(folder, sandbox):
    """A project with more documents than fit into one request."""
    project(folder, sandbox.bootstrap, *(quota(f"u{number:04}") for number in range(DOCUMENTS)))
    return folder


def start(folder, *words: str, **options) -> subprocess.Popen:
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen([*KQUOTA, *words], cwd=folder, env=ENVIRONMENT, text=True, **streams)


def until(claim) -> None:
    """Poll until a deadline."""
    deadline = time.monotonic() + HANG_SECONDS
    while not claim():
        assert time.monotonic() < deadline
        time.sleep(0.01)  # another process has no event to wait for


def stopped_during_first_request(folder, sandbox, number: int) -> tuple[int, str, str]:
    """An apply that gets a signal while it waits for the response to its first request, which was carried out."""
    release = sandbox.hold_request(api=49, executed=True)
    words = ("apply", "--yes", "--validate", "none")
    with (folder / "out").open("w") as file, (folder / "err").open("w") as err:
        process = start(folder, *words, stdout=file, stderr=err)
        until(lambda: 0 < len(sandbox.values()) < DOCUMENTS)
        process.send_signal(number)
        until(lambda: process.poll() is not None or STOPPING in (folder / "err").read_text())
        release()
        code = process.wait(HANG_SECONDS)
    return code, (folder / "out").read_text(), (folder / "err").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_apply_reports_its_changes_and_the_next_run_continues(
    many, sandbox, kquota, number
):
    code, output, err = stopped_during_first_request(many, sandbox, number)
    done = len(sandbox.values())
    assert code == 130
    assert "Traceback" not in output + err
    assert done == MAX_OPERATIONS
    assert f"{done} applied, {DOCUMENTS - done} not sent" in err
    assert "run it again" in err
    assert f"{done:,} of {DOCUMENTS:,} changes applied and shown by the brokers" in output
    (path,) = (many / ".kquota/outcomes").glob("*.json")
    counts = json.loads(path.read_text())["counts"]
    assert (counts["APPLIED"], counts["NOT SENT"]) == (done, DOCUMENTS - done)
    assert kquota("apply", "--yes").code == 0
    assert len(sandbox.values()) == DOCUMENTS
    assert f"{DOCUMENTS:,} managed quota keys" in kquota("drift").out
    assert kquota("plan", "--detailed-exitcode").code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_an_apply_at_once_and_the_command_that_undoes_it_is_printed(
    folder, sandbox, kquota, number
):
    project(folder, sandbox.bootstrap, quota("a"))
    _ = sandbox.hold_request(api=49)
    errors = folder / "err"
    with errors.open("w") as err:
        process = start(folder, "apply", "--yes", "--validate", "none", stderr=err)
        until(lambda: list((folder / ".kquota/outcomes").glob("*.json")))
        until(lambda: not sandbox.sandbox.faults._armed)
        process.send_signal(number)
        until(lambda: STOPPING in errors.read_text())
        process.send_signal(number)
        _ = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 130
    assert "Traceback" not in errors.read_text()
    words = "changes may have been made without a result; to undo them: "
    (line,) = [line for line in errors.read_text().splitlines() if line.startswith(words)]
    undone = kquota(*shlex.split(line.removeprefix(words))[1:], "--yes", "--validate", "none")
    # The write that nobody answered may still take effect.
    assert (undone.code, "earlier write may still take effect" in undone.err) == (1, True)
    assert sandbox.values() == {}


def test_after_kill_9_the_next_run_owns_the_applied_values_and_applies_the_rest(
    many, sandbox, kquota
):
    code, _, _ = stopped_during_first_request(many, sandbox, signal.SIGKILL)
    assert code == -signal.SIGKILL
    until(lambda: len(sandbox.values()) > 0)
    assert kquota("apply", "--yes").code == 0
    assert len(sandbox.values()) == DOCUMENTS
    assert f"{DOCUMENTS:,} managed quota keys" in kquota("drift").out
    assert kquota("plan", "--detailed-exitcode").code == 0


def killed_broker(folder, sandbox) -> tuple[int, str, str]:
    """An apply whose broker ends during its second request."""
    _ = sandbox.hold_request(api=49, skip=1)
    words = ("apply", "--yes", "--validate", "none", "--timeout", "5s")
    with (folder / "out").open("w") as file, (folder / "err").open("w") as err:
        process = start(folder, *words, stdout=file, stderr=err)
        until(lambda: 0 < len(sandbox.values()) < DOCUMENTS)
        sandbox.stop()
        code = process.wait(HANG_SECONDS)
    return code, (folder / "out").read_text(), (folder / "err").read_text()


def test_a_broker_that_stops_during_an_apply_leaves_a_summary_and_the_next_commands(many, sandbox):
    code, text, err = killed_broker(many, sandbox)
    (path,) = (many / ".kquota/outcomes").glob("*.json")
    counts = json.loads(path.read_text())["counts"]
    assert code == 1
    assert sum(counts.values()) == DOCUMENTS
    assert counts["APPLIED"] == MAX_OPERATIONS
    assert counts["UNKNOWN"] + counts["NOT SENT"] == DOCUMENTS - MAX_OPERATIONS
    assert text.splitlines()[-1] == (
        f"{MAX_OPERATIONS:,} applied, 0 rejected, {counts['UNKNOWN']:,} unknown, 0 waiting, {counts['NOT SENT']:,} not sent"
    )
    assert err.splitlines()[-2:] == [
        "to continue: kquota apply",
        f"to undo this: kquota rollback {path.relative_to(many)}",
    ]


def test_ctrl_c_while_reading_exits_130_with_one_line(folder, sandbox):
    project(folder, sandbox.bootstrap, quota("a"))
    _ = sandbox.hold_request(api=48)
    process = start(folder, "plan", stdin=subprocess.DEVNULL)
    until(lambda: not sandbox.sandbox.faults._armed)
    process.send_signal(signal.SIGINT)
    output, err = process.communicate(timeout=HANG_SECONDS)
    assert (process.returncode, output) == (130, "")
    assert err.startswith("\nerror: interrupted\n")
    assert "Traceback" not in err


class Terminal:
    """A process whose streams are a terminal.

    Args:
        stdout: Another file for its results.
    """

    def __init__(self, folder: Path, *words: str, stdout: IO[str] | None = None) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [*KQUOTA, *words],
            cwd=folder,
            env=ENVIRONMENT | {"TERM": "xterm"},
            stdin=slave,
            stdout=stdout or slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.seen = ""

    def expect(self, words: str) -> None:
        """Read until the text appears."""
        while words not in self.seen:
            self.seen += os.read(self.master, 65536).decode()

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def end(self) -> int:
        """Read to the end; return the exit code."""
        try:
            while chunk := os.read(self.master, 65536):
                self.seen += chunk.decode()
        except OSError:
            pass  # Linux ends a terminal without a process with EIO
        os.close(self.master)
        return self.process.wait(HANG_SECONDS)


@pytest.mark.parametrize(
    ("answer", "code", "entities"), [("y\n", 0, 1), ("n\n", 1, 0), ("\n", 1, 0), ("\x04", 1, 0)]
)
def test_on_a_terminal_apply_asks_and_only_yes_confirms(folder, sandbox, answer, code, entities):
    project(folder, sandbox.bootstrap, quota("a"))
    terminal = Terminal(folder, "apply")
    terminal.expect("Apply this to prod? [y/N] ")
    assert sandbox.values() == {}
    terminal.type(answer)
    assert terminal.end() == code
    assert len(sandbox.values()) == entities


def test_ctrl_c_at_the_question_is_handled_immediately(folder, sandbox):
    project(folder, sandbox.bootstrap, quota("a"))
    terminal = Terminal(folder, "apply")
    terminal.expect("[y/N] ")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == 130
    assert sandbox.values() == {}
    assert "Traceback" not in terminal.seen


def test_an_outcome_that_cannot_be_replaced_is_a_warning_beside_the_command_that_undoes(
    folder, sandbox
):
    project(folder, sandbox.bootstrap, quota("a"))
    release = sandbox.hold_request(api=49)
    with start(folder, "apply", "--yes", "--validate", "none") as process:
        until(lambda: not sandbox.sandbox.faults._armed)
        (path,) = (folder / ".kquota/outcomes").glob("*.json")
        earlier = path.read_text()
        path.unlink()
        path.mkdir()
        release()
        err = process.stderr.read()
    assert process.returncode == 0
    assert json.loads(earlier)["counts"]["UNKNOWN"] == 1
    name = path.relative_to(folder)
    assert f"warning: {name} cannot be written: " in err
    assert f"to undo this: kquota rollback {name}" in err


@pytest.mark.parametrize("output", ["text", "json"])
def test_an_outcome_that_standard_output_does_not_take_is_a_message(folder, sandbox, output):
    project(folder, sandbox.bootstrap, quota("a"))
    release = sandbox.hold_request(api=49, skip=1)  # validated, then sent
    read, write = os.pipe()
    with start(folder, "apply", "--yes", "--format", output, stdout=write) as process:
        os.close(write)
        until(lambda: list((folder / ".kquota/outcomes").glob("*.json")))
        os.close(read)
        release()
        err = process.stderr.read()
    assert process.returncode == 1
    assert len(sandbox.values()) == 1
    assert "1 of 1 change applied and shown by the brokers" in err
    assert "to undo this: kquota rollback .kquota/outcomes/" in err


def test_the_sandbox_command_prints_its_address_and_stops_on_a_signal(folder, kquota):
    process = start(folder, "sandbox", "--format", "json", "--behave-as", "3.9")
    try:
        line = process.stdout.readline()
        assert line, process.communicate(timeout=HANG_SECONDS)[1]
        document = json.loads(line)
        assert document["behavesAs"] == "3.9"
        (folder / "q.yaml").write_text(quota("a"))
        assert (
            kquota("apply", "q.yaml", "--yes", "--bootstrap-server", document["bootstrap"]).code
            == 0
        )
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0
    assert err.endswith("stopped\n")


def test_the_sandbox_command_accepts_its_users_over_tls(folder, tmp_path):
    authority = Authority.make(tmp_path)
    identity = authority.server("broker")
    process = start(
        folder,
        "sandbox",
        *("--user", "alice:secret:planner"),
        *("--tls-certificate", str(identity.certificate), "--tls-key", str(identity.key)),
    )
    try:
        name, _, bootstrap = process.stdout.readline().strip().partition("=")
        assert name == "bootstrap.servers"
        config = ClientConfig.from_mapping(
            {
                "bootstrap.servers": bootstrap,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "alice",
                "sasl.password": "secret",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": authority.certificate_file.read_text(),
            }
        )
        with SyncQuotaClient(config) as client:
            assert client.cluster().rights == {"Describe", "DescribeConfigs"}
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0


EARLY = """
import os, signal, sys
class Finder:  # the first module of the command line that is imported sends the signal
    def find_spec(self, name, path=None, target=None):
        if name == "reconciler.cli.main":
            os.kill(os.getpid(), {number})
sys.meta_path.insert(0, Finder())
from reconciler.__main__ import main
main()
"""
WITHIN = """
import os, signal, sys
import reconciler.base.output_text, reconciler.cli.framework.diagnostics, reconciler.cli.change.plan
class Finder:  # the signal interrupts code from a text, such as the methods of a dataclass
    def find_spec(self, name, path=None, target=None):
        if name == "reconciler.app.clusters.targets":
            exec("os.kill(os.getpid(), {number}); import time; time.sleep(20)")
sys.argv = ["kquota", "plan", "--bootstrap-server", "127.0.0.1:1", "q.yaml"]
sys.meta_path.insert(0, Finder())
from reconciler.__main__ import main
main()
"""
FINAL = """
import os, signal, sys
import reconciler.cli.main as command_line
class Last:
    def __del__(self, kill=os.kill, pid=os.getpid()):  # when the interpreter has ended and clears its modules
        kill(pid, {number})
command_line.main = lambda: 7
sys.kept_until_the_end = Last()
from reconciler.__main__ import main
main()
"""
LATE = """
import os, signal, sys
import reconciler.cli.main as command_line
def run():
    print("done", flush=True)
    os.kill(os.getpid(), {number})
    return 0
command_line.main = run
from reconciler.__main__ import main
main()
"""
LAST = """
import os, signal, sys
import reconciler.cli.main as command_line
command_line.main = lambda: 0
sys.exit = lambda code: os.kill(os.getpid(), {number})
from reconciler.__main__ import main
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("script", [EARLY, LATE, LAST], ids=["early", "late", "last"])
def test_a_signal_before_or_after_the_work_exits_130_without_a_message(folder, script, number):
    ran = subprocess.run(
        [sys.executable, "-c", script.format(number=int(number))],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (130, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(("script", "code"), [(WITHIN, 130), (FINAL, 7)], ids=["within", "final"])
def test_no_signal_ends_the_process_in_place_of_its_exit_code(folder, script, code, number):
    (folder / "program.py").write_text(script.format(number=int(number)))
    ran = subprocess.run(
        [sys.executable, "-m", "program"],  # Python ends a module, not a script, with SIGINT
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert ran.returncode == code
    assert "Traceback" not in ran.stderr


def test_a_completion_that_is_interrupted_prints_nothing_into_the_prompt(folder):
    words = {"COMP_WORDS": "kquota plan --cluster ", "COMP_CWORD": "3"}
    ran = subprocess.run(
        [sys.executable, "-c", WITHIN.format(number=int(signal.SIGINT))],
        cwd=folder,
        env=ENVIRONMENT | words | {"_KQUOTA_COMPLETE": "bash_complete"},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")


def test_a_broker_that_stops_before_the_first_request_leaves_the_count_and_the_next_command(
    folder, sandbox
):
    project(folder, sandbox.bootstrap, quota("a"))
    terminal = Terminal(folder, "apply", "--validate", "none", "--timeout", "1s")
    terminal.expect("[y/N]")
    sandbox.stop()
    terminal.type("y\n")
    assert terminal.end() == 1
    assert "0 applied, 1 change not sent: no connection: " in terminal.seen
    assert "next: `kquota apply`" in " ".join(terminal.seen.split())  # the line may wrap
    assert not list((folder / ".kquota").glob("outcomes/*"))


async def begin_write(folder: Path, sandbox, at: float) -> None:
    """Record an intent of an earlier run, whose outcome is not known."""
    intent = Intent(value=5e6, owner=Owner(document="team/a"), at=at)
    change = IntentStarted(entity=entity(user="a"), key=Key.PRODUCER_BYTE_RATE, intent=intent)
    with FileInventory(
        RecordsFile(folder / ".kquota/inventory.json"), clock=SystemClock(), command="test"
    ) as inventory:
        _ = await inventory.load(sandbox.sandbox.cluster_id)
        await inventory.write(sandbox.sandbox.cluster_id, (change,))


def test_an_apply_with_nothing_to_write_fails_while_an_earlier_write_may_still_take_effect(
    kquota, folder, sandbox
):
    """Its value could follow after an exit code of 0."""
    project(folder, sandbox.bootstrap, quota("a"))
    assert kquota("apply", "--yes").code == 0
    asyncio.run(begin_write(folder, sandbox, SystemClock().now()))
    ran = kquota("apply", "--yes")
    assert (ran.code, "Nothing to do" in ran.out) == (1, True)
    assert "prod: 1 earlier write may still take effect" in ran.err
    assert "to continue: kquota apply" in ran.err
    override = ("--for", "1h", "--reason", "x", "--yes", "--new-entity")
    assert kquota("override", "user=b", "producer_byte_rate=2Mi", *override).code == 0
    asyncio.run(begin_write(folder, sandbox, SystemClock().now() - SETTLING_SECONDS))
    assert kquota("apply", "--yes").code == 0


def test_the_command_that_continues_an_apply_has_its_options_and_writes_nothing_else(
    kquota, folder, sandbox
):
    """Without its options it would write every document, also over values that CreateOnly leaves."""
    project(folder, sandbox.bootstrap, quota("a"), quota("b"))
    options = ("--policy", "CreateOnly", "--only", "user=a")
    assert kquota("apply", "--yes", *options).code == 0
    asyncio.run(begin_write(folder, sandbox, SystemClock().now()))
    ran = kquota("apply", "--yes", *options)
    command = f"kquota apply {' '.join(options)}"
    assert (ran.code, ran.err.splitlines()[-1]) == (1, f"to continue: {command}")
    asyncio.run(begin_write(folder, sandbox, SystemClock().now() - SETTLING_SECONDS))
    assert kquota(*shlex.split(command)[1:], "--yes").code == 0
    assert len(sandbox.values()) == 1


def test_the_command_that_continues_a_rollback_keeps_its_end_and_its_reason(
    kquota, folder, sandbox
):
    project(folder, sandbox.bootstrap, quota("a"))
    assert kquota("apply", "--yes").code == 0
    (path,) = folder.glob(".kquota/outcomes/*.json")
    asyncio.run(begin_write(folder, sandbox, SystemClock().now()))
    words = ("--for", "2h", "--reason", "INC 1")
    ran = kquota("rollback", "--last", "--yes", *words)
    assert ran.code == 1
    name = path.relative_to(folder)
    continues = f"to continue: kquota rollback {name} --for 7200s --reason 'INC 1'"
    assert continues in ran.err.splitlines()
