"""`kquota watch` as a process, against a sandbox: output, endpoints, state and end."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.quota.state import MAX_OPERATIONS
from tests.cli.projects import quota
from tests.cli.watch_process import ENVIRONMENT, Watch, Watched, until

RATE = "producer_byte_rate"
MIB = 1024 * 1024.0
OFTEN = "  interval: 1s\n"
MANY = MAX_OPERATIONS + 500
"""Documents for two requests."""


@pytest.fixture
def watched(folder: Path, sandbox) -> Watched:
    return Watched(folder, sandbox.bootstrap, OFTEN)


def rate(sandbox, user: str) -> float | None:
    return sandbox.values().get((("user", user),), {}).get(RATE)


def test_a_commit_is_applied_counted_in_metrics_and_logged_in_the_audit_log(
    folder: Path, sandbox, watched: Watched
):
    first = watched.commit(quota("alice"))
    with Watch(folder) as watch:
        watch.wait_for_log(f"{first[:12]} is in force: 1 documents for prod")
        until(lambda: rate(sandbox, "alice") == 10 * MIB)
        second = watched.commit(quota("alice"), quota("bob"))
        until(lambda: rate(sandbox, "bob") == 10 * MIB)
        watch.wait_for_log(f"prod: 1 applied for {second[:12]}")
        until(lambda: watch.get("/readyz") == (200, "ok\n"))
        assert watch.get("/healthz") == (200, "ok\n")
        assert watch.metric(f'kquota_revision_info{{cluster="prod",revision="{second}"}}') == 1
        assert watch.metric('kquota_revision_refused{cluster="prod"}') == 0
        assert watch.end() == 0
        assert watch.log.rstrip().endswith("INFO stopped")
    lines = (watch.state / ".kquota/audit.jsonl").read_text().splitlines()
    assert [json.loads(line)["commit"] for line in lines] == [first, first, second, second]
    assert json.loads((watch.state / "watch.json").read_text())["commit"] == second
    for text in ("watch.json", ".kquota/inventory.json", ".kquota/audit.jsonl"):
        assert (watch.state / text).stat().st_mode & 0o077 == 0


def test_sigterm_ends_after_the_request_under_way_and_the_next_run_continues(
    folder: Path, sandbox, watched: Watched
):
    documents = [quota(f"u{number:04}") for number in range(MANY)]
    watched.commit(*documents)
    # Two requests are validated; the next one was carried out, and its response is still missing at the signal.
    release = sandbox.hold_request(api=49, skip=2, executed=True)
    watch = Watch(folder)
    with watch:
        until(lambda: 0 < len(sandbox.values()) < MANY, lambda: watch.log)
        watch.send(signal.SIGTERM)
        watch.wait_for_log("SIGTERM: ending after the request under way")
        watch.turn()
        release()
        assert watch.exit_code() == 0
        watch.wait_for_log("not sent")
    done = len(sandbox.values())
    assert done == MAX_OPERATIONS
    records = json.loads((watch.state / ".kquota/inventory.json").read_text())
    (cluster,) = records["clusters"].values()
    assert len(cluster["records"]) == done
    assert not cluster["intents"]
    with watch:
        until(lambda: len(sandbox.values()) == MANY, lambda: watch.log)


def test_ctrl_c_exits_130(folder: Path, sandbox, watched: Watched):
    watched.commit(quota("alice"))
    with Watch(folder) as watch:
        watch.wait_for_log("prod: 1 applied")
        assert watch.end(signal.SIGINT) == 130
        assert "SIGINT: ending after the request under way" in watch.log
        assert "Traceback" not in watch.log


def test_a_second_signal_ends_immediately_and_the_next_start_settles_the_open_writes(
    folder: Path, sandbox, watched: Watched
):
    watched.commit(quota("alice"))
    _ = sandbox.hold_request(api=49, skip=1)  # validated, then sent
    watch = Watch(folder)
    with watch:
        records = watch.state / ".kquota" / "inventory.json"
        until(lambda: records.exists() and '"intents":[[' in records.read_text().replace("\n", ""))
        watch.send(signal.SIGTERM)
        watch.wait_for_log("SIGTERM: ending after the request under way")
        assert watch.end() == 130
        assert "Traceback" not in watch.log
    with watch:
        watch.wait_for_log("is in force, as before")
        until(lambda: rate(sandbox, "alice") == 10 * MIB, lambda: watch.log)
        until(lambda: '"intents":[]' in records.read_text().replace("\n", ""))


def test_two_processes_cannot_share_a_folder(folder: Path, sandbox, watched: Watched):
    watched.commit(quota("alice"))
    with Watch(folder) as first:
        first.wait_for_log("is in force")
        done = subprocess.run(
            first.words, capture_output=True, text=True, check=False, env=ENVIRONMENT, cwd=folder
        )
    assert done.returncode == 1
    assert "is locked by kquota watch, process" in done.stderr


def test_passwords_of_the_url_and_of_the_project_are_never_printed(folder: Path, sandbox):
    watched = Watched(folder, sandbox.bootstrap, OFTEN + "  properties: {sasl.password: hunter2}\n")
    watched.commit(quota("alice"))
    url = "https://bot:hunter3@127.0.0.1:9/quotas.git"
    with Watch(folder, url, "--interval", "1s", KQUOTA_DEBUG="1") as watch:
        watch.wait_for_log("cannot be fetched")
        assert watch.get("/readyz") == (503, "no revision is in force\n")
        watch.end()
        log = watch.log
    assert "https://127.0.0.1:9/quotas.git" in log
    with Watch(folder) as watch:
        watch.wait_for_log("prod: 1 applied")
        watch.end()
        log += watch.log
    assert "hunter" not in log


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("origin",), "Missing option '--state-dir'"),
        (("nowhere", "--state-dir", "s"), "there is no folder"),
        (("ext::sh -c id", "--state-dir", "s"), "are not run"),
        (("origin", "--branch", "-x", "--state-dir", "s"), "cannot be the name of a branch"),
        (("origin", "--path", "../up", "--state-dir", "s"), "not a path inside the repository"),
        (
            ("origin", "--metrics-address", "nonsense", "--state-dir", "s"),
            "is not a listen address",
        ),
        (("origin", "--state-dir", "damaged"), "is damaged or not of this version"),
    ],
)
def test_settings_that_cannot_work_are_reported_immediately(
    folder: Path, kquota, monkeypatch, words, text: str
):
    for name in ("STATE_DIRECTORY", "KQUOTA_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)
    (folder / "origin").mkdir()
    (folder / "damaged").mkdir()
    (folder / "damaged" / "watch.json").write_text("{")
    ran = kquota("watch", *words)
    assert ran.code == 1
    assert text in ran.err
    assert "Traceback" not in ran.err


def test_without_the_extra_the_error_names_the_install_command(folder: Path):
    program = (
        "import sys, importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'prometheus_client' else real(name, *a)\n"
        "from reconciler.cli.main import main\n"
        "sys.exit(main(['watch', '.', '--state-dir', 's', '--metrics-address', ':0']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRONMENT,
        cwd=folder,
    )
    assert done.returncode == 1
    assert "pip install '.[watch]'" in done.stderr


def test_without_metrics_nothing_beyond_the_base_install_is_loaded(folder: Path, sandbox, watched):
    watched.commit(quota("alice"))
    watch = Watch(folder)
    at = watch.words.index("--metrics-address")
    del watch.words[at : at + 2]
    program = (
        "import sys\nfor name in ('aiohttp', 'prometheus_client', 'kopf'): sys.modules[name] = None\n"
        "from reconciler.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    )
    watch.words[1:3] = ["-c", program]
    with watch:
        watch.wait_for_log("prod: 1 applied")
        assert watch.end() == 0
