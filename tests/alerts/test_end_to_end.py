"""End-to-end test with real servers: a change outside kquota, with Kafka's own tool, causes an alert that resolves.

Kafka, `kquota drift --watch`, Prometheus with the shipped rules (durations divided, `tests.alerts.rules`),
Alertmanager, receivers on loopback. Prints how long after the change each message arrived.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.alerts import rules
from tests.cli.projects import project, quota
from tests.servers import jars, tools
from tests.servers.inbox import Inbox, Post
from tests.servers.kafka import KafkaCluster
from tests.servers.ports import free_ports
from tests.servers.processes import Child
from tests.servers.prometheus import Alertmanager, Prometheus, until

pytestmark = pytest.mark.integration

USER = "alerted-user"
DIVISOR = 300.0
"""Ten minutes become two seconds."""

SECONDS = 240.0
TREE = Path(__file__).parents[2]


def kquota(folder: Path, *arguments: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "reconciler",
        *arguments,
        "--project",
        str(folder / "kquota.yaml"),
    ]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(TREE), **more}


def set_rate(cluster: KafkaCluster, value: int) -> None:
    """Set a quota with Kafka's own command, like another writer."""
    done = tools.kafka_configs(
        cluster.version,
        "--bootstrap-server",
        cluster.bootstrap(),
        "--alter",
        "--entity-type",
        "users",
        "--entity-name",
        USER,
        "--add-config",
        f"producer_byte_rate={value}",
    )
    assert done.returncode == 0, done.stdout + done.stderr


def alerts_in(post: Post, status: str) -> set[str]:
    """Names of alerts of one status in Alertmanager's messages."""
    alerts = post.json.get("alerts", ())
    return {alert["labels"]["alertname"] for alert in alerts if alert["status"] == status}


@contextlib.contextmanager
def watching(folder: Path, *, port: int) -> Iterator[None]:
    """`kquota drift --watch` in a separate process, with its metrics on a port."""
    words = kquota(
        folder, "drift", "--watch", "--interval", "500ms", "--metrics-address", f"127.0.0.1:{port}"
    )
    child = Child(words, log=folder / "watch.log", environment=environment())
    try:
        yield
    finally:
        child.kill()


@contextlib.contextmanager
def monitoring(target: int, inbox: Inbox) -> Iterator[Prometheus]:
    """Prometheus that scrapes one port each second, and Alertmanager that sends to the inbox."""
    routes = {
        "route": {
            "receiver": "inbox",
            "group_by": ["alertname"],
            "group_wait": "0s",
            "group_interval": "1s",
            "repeat_interval": "1h",
        },
        "receivers": [
            {
                "name": "inbox",
                "webhook_configs": [{"url": inbox.url("/alertmanager"), "send_resolved": True}],
            }
        ],
    }
    file = rules_file()
    with Alertmanager(routes) as alertmanager, file as path:
        configuration = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(path)],
            "alerting": {
                "alertmanagers": [
                    {"static_configs": [{"targets": [f"127.0.0.1:{alertmanager.port}"]}]}
                ]
            },
            "scrape_configs": [
                {"job_name": "kquota", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}
            ],
        }
        with Prometheus(configuration) as prometheus:
            yield prometheus


@contextlib.contextmanager
def rules_file() -> Iterator[Path]:
    """The shipped rules with divided durations."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "alerts.yaml"
        path.write_text(json.dumps(rules.quick(DIVISOR)), encoding="utf-8")
        yield path


def test_a_change_outside_kquota_fires_an_alert_and_its_end_resolves_it(
    empty_kafka, tmp_path, capsys
):
    cluster = empty_kafka(jars.NEWEST)
    project(tmp_path, cluster.bootstrap(), quota(USER))
    applied = subprocess.run(
        kquota(tmp_path, "apply", "--yes"),
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert applied.returncode == 0, applied.stderr
    took: dict[str, float] = {}
    with Inbox() as inbox:
        (port,) = free_ports(1)
        with watching(tmp_path, port=port), monitoring(port, inbox) as prometheus:
            scraped(prometheus)
            assert "KquotaDrift" not in prometheus.firing()

            set_rate(cluster, 12345)
            changed = time.monotonic()
            wait_for_alert(inbox, "KquotaDrift", "firing")
            took["alert"] = time.monotonic() - changed
            assert "KquotaDrift" in prometheus.firing()

            set_rate(cluster, 10 * 1024 * 1024)
            changed = time.monotonic()
            wait_for_alert(inbox, "KquotaDrift", "resolved")
            took["resolved"] = time.monotonic() - changed
            assert "KquotaDrift" not in prometheus.firing()
    with capsys.disabled():
        print("\n" + ", ".join(f"{what} {seconds:.1f} s" for what, seconds in took.items()))  # noqa: T201


def wait_for_alert(inbox: Inbox, alert: str, status: str) -> None:
    """Wait for the message of Alertmanager."""
    inbox.wait(
        lambda post: alert in alerts_in(post, status), seconds=SECONDS, doing=f"{alert} {status}"
    )


def scraped(prometheus: Prometheus) -> None:
    """Wait until an observation was scraped."""
    until(
        lambda: prometheus.values('kquota_pairs{state="drifted"} == 0'),
        seconds=SECONDS,
        doing="the first scrape",
        details=prometheus.log,
    )
