"""Incidents on a real broker: overrides that end, and a broker or a command that is killed during an apply."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reconciler.base.clock import SystemClock
from reconciler.quota.outcome import MAX_OPERATIONS
from tests.cli.projects import project, quota
from tests.servers import raw_quotas
from tests.servers.fault_proxy import in_front_of
from tests.servers.faults import Action, Fault
from tests.servers.processes import HANG_SECONDS

pytestmark = pytest.mark.integration

ALTER = 49
LIMITS = "{producerByteRate: 10Mi, consumerByteRate: 10Mi, requestPercentage: 50, controllerMutationRate: 5}"
KEYS = LIMITS.count(":")
FULL = MAX_OPERATIONS // KEYS
"""The number of documents that fill a request."""

DOCUMENTS = 2 * FULL + 25
CHANGES = KEYS * DOCUMENTS
KQUOTA = [sys.executable, "-m", "reconciler"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "CI"} | {
    "PYTHONPATH": str(Path(__file__).parents[2]),
    "NO_COLOR": "1",
}


def kquota(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*KQUOTA, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
        stdin=subprocess.DEVNULL,
        env=ENVIRONMENT,
    )


def until(claim: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not claim():
        assert time.monotonic() < deadline
        time.sleep(0.05)  # another process has no event to wait for


def documents() -> list[str]:
    return [quota(f"u{at:05}", LIMITS) for at in range(DOCUMENTS)]


def audit(folder: Path) -> Counter[str]:
    lines = (folder / ".kquota/audit.jsonl").read_text().splitlines()
    return Counter(json.loads(line)["outcome"] for line in lines)


def outcome_of(folder: Path) -> Path:
    (path,) = (folder / ".kquota/outcomes").glob("*.json")
    return path


def test_an_override_that_has_ended_is_reported_and_reverted(empty_kafka, tmp_path: Path) -> None:
    cluster = empty_kafka("4.3.1")
    project(tmp_path, cluster.bootstrap(), quota("a"))
    assert kquota(tmp_path, "apply", "--yes").returncode == 0
    words = ("user=a", "producer_byte_rate=50Mi", "--for", "1ms", "--reason", "INC-1", "--yes")
    assert kquota(tmp_path, "override", *words).returncode == 0
    drift = kquota(tmp_path, "drift", "--detailed-exitcode", "--format", "json")
    (row,) = json.loads(drift.stdout)["expiredOverrides"]
    assert (drift.returncode, row["expected"], row["live"]) == (2, 10485760, 52428800)
    assert kquota(tmp_path, "doctor").returncode == 2
    ended = kquota(tmp_path, "override", "end", "--expired", "--yes")
    assert ended.returncode == 0, ended.stderr
    assert kquota(tmp_path, "drift", "--detailed-exitcode").returncode == 0
    assert kquota(tmp_path, "doctor").returncode == 0


@pytest.mark.parametrize("version", ["3.9.1", "4.4.0"])
def test_a_document_with_an_end_is_in_force_until_then(
    empty_kafka, tmp_path: Path, version: str
) -> None:
    """It begins with an approved plan; the job that ends expired limits writes what follows."""
    cluster = empty_kafka(version)

    def rate() -> float:
        limits = raw_quotas.describe(cluster.port())[raw_quotas.entity(user="a")]
        return limits["producer_byte_rate"]

    end = datetime.fromtimestamp(SystemClock().now() + 15, UTC)
    raised = quota(
        "raise",
        "{producerByteRate: 50Mi}",
        entity="{user: {name: a}}",
        more=f'  until: "{end:%Y-%m-%dT%H:%M:%SZ}"\n',
    )
    project(tmp_path, cluster.bootstrap(), quota("a"))
    assert kquota(tmp_path, "apply", "--yes").returncode == 0
    project(tmp_path, cluster.bootstrap(), quota("a"), raised)
    assert kquota(tmp_path, "plan", "--out", "plan.json").returncode == 0
    applied = kquota(tmp_path, "apply", "plan.json", "--yes")
    assert (applied.returncode, rate()) == (0, 52428800), applied.stderr
    until(lambda: kquota(tmp_path, "drift", "--detailed-exitcode").returncode == 2)
    ended = kquota(tmp_path, "override", "end", "--expired", "--yes")
    assert (ended.returncode, rate()) == (0, 10485760), ended.stderr
    plan = kquota(tmp_path, "plan", "--detailed-exitcode")
    assert (plan.returncode, "spec.until" in plan.stdout) == (0, True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_command_that_is_terminated_during_an_apply_loses_no_record(
    empty_kafka, tmp_path: Path, number: signal.Signals
) -> None:
    cluster = empty_kafka("4.3.1")
    with in_front_of(cluster) as proxies:
        (proxy,) = proxies.values()
        project(tmp_path, f"127.0.0.1:{proxy.port}", *documents())
        hold = Fault(
            action=Action.HOLD_REQUEST,
            api_key=ALTER,
            nth=2,
            matching=lambda message: message.writes,
        )
        _ = proxy.plant(hold)
        with (tmp_path / "out").open("w") as file:
            words = (*KQUOTA, "apply", "--yes", "--validate", "none")
            process = subprocess.Popen(
                words, cwd=tmp_path, stdout=file, stderr=file, env=ENVIRONMENT
            )
            until(lambda: sum(request.writes for request in proxy.requests) >= 2)
            counts = audit(tmp_path)
            assert counts["INTENDED"] == CHANGES
            assert json.loads(outcome_of(tmp_path).read_text())["counts"]["UNKNOWN"] == CHANGES
            process.send_signal(number)
            code = process.wait(HANG_SECONDS)
        assert code == (-signal.SIGKILL if number is signal.SIGKILL else 130)
        proxy.heal()
        if number is not signal.SIGKILL:
            assert sum(audit(tmp_path).values()) == 2 * CHANGES
    project(tmp_path, cluster.bootstrap(), *documents())
    undone = kquota(tmp_path, "rollback", str(outcome_of(tmp_path)), "--yes", "--validate", "none")
    until(lambda: not raw_quotas.describe(cluster.port(cluster.numbers[0])))
    assert "Traceback" not in undone.stdout + undone.stderr
    assert all(word in audit(tmp_path) for word in ("INTENDED", "APPLIED"))


def test_a_broker_that_is_killed_during_an_apply_leaves_a_summary(
    empty_kafka, tmp_path: Path
) -> None:
    cluster = empty_kafka("4.3.1")
    (node,) = cluster.numbers
    with in_front_of(cluster) as proxies:
        (proxy,) = proxies.values()
        project(tmp_path, f"127.0.0.1:{proxy.port}", *documents())
        hold = Fault(
            action=Action.HOLD_REQUEST,
            api_key=ALTER,
            nth=2,
            matching=lambda message: message.writes,
        )
        _ = proxy.plant(hold)
        words = (*KQUOTA, "apply", "--yes", "--validate", "none", "--timeout", "5s")
        with (tmp_path / "out").open("w") as file, (tmp_path / "err").open("w") as err:
            process = subprocess.Popen(
                words, cwd=tmp_path, stdout=file, stderr=err, env=ENVIRONMENT
            )
            until(lambda: sum(request.writes for request in proxy.requests) >= 2)
            cluster.kill(node)
            proxy.refuse()
            code = process.wait(HANG_SECONDS)
        try:
            counts = json.loads(outcome_of(tmp_path).read_text())["counts"]
            assert (code, counts["APPLIED"]) == (1, KEYS * FULL)
            last = (tmp_path / "out").read_text().splitlines()[-1]
            assert last == (
                f"{KEYS * FULL:,} applied, 0 rejected, {counts['UNKNOWN']:,} unknown, 0 waiting, {counts['NOT SENT']:,} not sent"
            )
            path = outcome_of(tmp_path).relative_to(tmp_path)
            assert (tmp_path / "err").read_text().splitlines()[-2:] == [
                "to continue: kquota apply",
                f"to undo this: kquota rollback {path}",
            ]
        finally:
            cluster.start(node)
    project(tmp_path, cluster.bootstrap(), *documents())
    until(lambda: kquota(tmp_path, "apply", "--yes", "--validate", "none").returncode == 0)
    assert kquota(tmp_path, "plan", "--detailed-exitcode").returncode == 0
