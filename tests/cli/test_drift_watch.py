"""`kquota drift --watch` as a process: observes, logs, corrects, serves metrics, and ends on a signal."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

from reconciler.sandbox import Fault
from reconciler.sandbox.broker_rules.alterations import BrokerFailure
from reconciler.sandbox.faults import Refuse
from tests.cli.projects import project, quota
from tests.servers.ports import free_ports
from tests.servers.processes import HANG_SECONDS
from tests.servers.prometheus import until

USER_A = (("user", "a"),)
TEN = 10485760.0
TREE = Path(__file__).parents[2]


class Watch:
    """The running command; its output is in files."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        (self.port,) = free_ports(1)
        self.out, self.err = folder / "watch.out", folder / "watch.err"
        words = [
            sys.executable,
            "-m",
            "reconciler",
            "drift",
            "--watch",
            "--interval",
            "200ms",
            "--metrics-address",
            f"127.0.0.1:{self.port}",
            *arguments,
        ]
        with self.out.open("wb") as file, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                words, cwd=folder, stdout=file, stderr=err, env=environment()
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def ask(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}{path}", timeout=60
            ) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def metric(self, name: str) -> float | None:
        lines = self.ask("/metrics")[1].splitlines()
        values = [float(line.rpartition(" ")[2]) for line in lines if line.startswith(name + " ")]
        return values[0] if values else None

    def waits_for(self, true, doing: str) -> None:
        until(true, seconds=HANG_SECONDS, doing=doing, details=self.story)

    def story(self) -> str:
        series = [
            line for line in self.ask("/metrics")[1].splitlines() if line.startswith("kquota_")
        ]
        remaining_series = [
            line for line in series if not line.endswith(" 0.0") and "seconds" not in line
        ]
        return "\n".join(
            [self.out.read_text()[-2000:], self.err.read_text()[-2000:], *remaining_series]
        )

    def drifted(self, count: float) -> None:
        name = 'kquota_pairs{cluster="prod",state="drifted"}'
        self.waits_for(lambda: self.metric(name) == count, f"{count} drifted pairs")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(HANG_SECONDS)


def environment() -> dict[str, str]:
    inherited = {name: text for name, text in os.environ.items() if name in {"PATH", "HOME"}}
    return inherited | {"PYTHONPATH": str(TREE)}


def seed(sandbox, value: float) -> None:
    sandbox.seed({USER_A: {"producer_byte_rate": value}})


def rate(sandbox) -> float | None:
    return sandbox.values().get(USER_A, {}).get("producer_byte_rate")


def test_drift_is_observed_logged_and_ended_and_the_process_exits_0(applied, sandbox):
    with Watch(applied) as watch:
        watch.waits_for(lambda: watch.ask("/readyz") == (200, "ok\n"), "ready")
        assert watch.ask("/healthz") == (200, "ok\n")
        watch.drifted(0.0)
        seed(sandbox, 5000.0)
        watch.drifted(1.0)
        assert watch.metric('kquota_interval_seconds{cluster="prod"}') == 0.2
        assert (
            watch.metric(
                'kquota_kafka_request_seconds_count{api="DescribeClientQuotas",cluster="prod"}'
            )
            > 0
        )
        assert b"user=a" not in watch.ask("/metrics")[1].encode()
        seed(sandbox, TEN)
        watch.drifted(0.0)
        assert watch.stop() == 0
    assert watch.out.read_text() == ""
    lines = [line.partition(" ")[2] for line in watch.err.read_text().splitlines()]
    began = lines.index(
        "WARNING prod: drift: user=a producer_byte_rate is 5 kB/s instead of 10 MiB/s"
    )
    assert lines[began + 1 :] == [
        "INFO prod: recovered",
        "INFO SIGTERM: ending after the request under way",
        "INFO stopped",
    ]


def test_drift_does_not_end_while_the_records_are_lost(applied, sandbox):
    passes = 'kquota_passes_total{cluster="prod",reason="",result="in_order"}'
    with Watch(applied, "--confirm-after", "1") as watch:
        seed(sandbox, 5000.0)
        watch.drifted(1.0)
        (applied / ".kquota/inventory.json").unlink()
        watch.waits_for(lambda: "no ownership records" in watch.err.read_text(), "a warning")
        before = watch.metric(passes) or 0
        watch.waits_for(lambda: (watch.metric(passes) or 0) > before + 2, "three observations")
        assert watch.metric('kquota_pairs{cluster="prod",state="drifted"}') == 1.0
        assert watch.stop() == 0
    assert "recovered" not in watch.err.read_text()
    assert watch.err.read_text().count("there are no ownership records of prod") == 1


def test_confirmed_drift_is_corrected_where_it_is_configured(applied, sandbox):
    seed(sandbox, 5000000.0)
    with Watch(applied, "--correct-drift") as watch:
        watch.waits_for(lambda: rate(sandbox) == TEN, "correction")
        text = 'kquota_corrections_total{cluster="prod"}'
        watch.waits_for(lambda: watch.metric(text) == 1.0, "one correction that is told")
        watch.drifted(0.0)
        assert watch.stop() == 0
    entries = [
        json.loads(line) for line in (applied / ".kquota/audit.jsonl").read_text().splitlines()
    ]
    assert [entry["cause"] for entry in entries] == ["Create", "Create", "Drift", "Drift"]


def test_only_what_a_document_declares_is_corrected(kquota, folder, sandbox):
    """A suspended document, a deleted one, and an entity that left the scope."""
    names = ("a", "suspended", "deleted", "elsewhere")
    project(folder, sandbox.bootstrap, *(quota(name) for name in names))
    assert kquota("apply", "--yes").code == 0
    scope = "  scope: [{user: {exact: a}}, {user: {exact: suspended}}, {user: {exact: deleted}}]\n"
    suspended = quota("suspended", more="  suspend: true\n")
    project(folder, sandbox.bootstrap, quota("a"), suspended, more=scope)
    sandbox.seed({(("user", name),): {"producer_byte_rate": 5e6} for name in names})
    with Watch(folder, "--correct-drift") as watch:
        watch.waits_for(lambda: rate(sandbox) == TEN, "correction")
        watch.drifted(0.0)
        assert watch.stop() == 0
    rates = {key[0][1]: values["producer_byte_rate"] for key, values in sandbox.values().items()}
    assert rates == {"a": TEN, "suspended": 5e6, "deleted": 5e6, "elsewhere": 5e6}
    plan = kquota("drift", "--detailed-exitcode")
    assert plan.code == 0


def test_a_correction_needs_to_know_the_documents(kquota, folder, sandbox):
    project(folder, sandbox.bootstrap, quota("a"))
    text = (folder / "kquota.yaml").read_text()
    (folder / "kquota.yaml").write_text(
        text.replace("spec:\n  manifests: [quotas]\n", "spec: {}\n")
    )
    ran = kquota("drift", "--watch", "--correct-drift")
    assert ran.code == 1
    assert "no manifests are configured" in ran.err


def test_a_writer_that_reverts_corrections_is_reported_and_no_longer_corrected(applied, sandbox):
    seeds = 0
    with Watch(applied, "--correct-drift", "--confirm-after", "1") as watch:

        def fought() -> bool:
            # Only between reconciliations: after a removal, a reconciliation waits half a minute for visibility.
            nonlocal seeds
            if watch.metric('kquota_corrections_total{cluster="prod"}') == seeds < 4:
                seed(sandbox, 5000000.0)
                seeds += 1
            return watch.metric('kquota_drift_fought_pairs{cluster="prod"}') == 1.0

        watch.waits_for(fought, "to be fought")
        assert watch.metric('kquota_corrections_total{cluster="prod"}') == 3.0
        assert rate(sandbox) == 5000000.0
        assert watch.stop() == 0
    assert "another writer keeps changing user=a producer_byte_rate" in watch.err.read_text()


def test_a_failed_cluster_is_counted_and_recovers_without_intervention(applied, sandbox):
    with Watch(applied) as watch:
        watch.waits_for(lambda: watch.ask("/readyz")[0] == 200, "ready")
        sandbox.fail(
            Fault(
                effect=Refuse(failure=BrokerFailure(code=-1, message="not today")), api=48, times=12
            )
        )
        failed = 'kquota_passes_total{cluster="prod",reason="broker_error",result="failed"}'
        watch.waits_for(lambda: (watch.metric(failed) or 0) > 0, "a failure")
        assert watch.ask("/healthz")[0] == watch.ask("/readyz")[0] == 200
        passes = 'kquota_passes_total{cluster="prod",reason="",result="in_order"}'
        before = watch.metric(passes) or 0
        watch.waits_for(lambda: (watch.metric(passes) or 0) > before, "a success")
        assert watch.stop() == 0
    assert "WARNING prod: " in watch.err.read_text()


def test_a_listen_address_in_use_is_an_immediate_error(applied, kquota):
    with Watch(applied) as watch:
        watch.waits_for(lambda: watch.ask("/healthz")[0] == 200, "the server")
        ran = kquota("drift", "--watch", "--metrics-address", f"127.0.0.1:{watch.port}")
        assert ran.code == 1
        assert "cannot listen on" in ran.err


# ---- overrides that have ended ---------------------------------------------------------------


def test_nothing_is_corrected_with_the_records_of_another_project(applied, sandbox):
    records = applied / ".kquota/inventory.json"
    records.write_text(records.read_text().replace('"project":"prod"', '"project":"other"'))
    seed(sandbox, 5000000.0)
    with Watch(applied, "--correct-drift", "--confirm-after", "1") as watch:
        refusal = "are those of project 'other', not of 'prod'"
        watch.waits_for(
            lambda: refusal in watch.err.read_text() or rate(sandbox) == TEN, "the refusal"
        )
        assert watch.stop() == 0
    assert rate(sandbox) == 5000000.0
