"""`kquota watch` with a real broker: commits, an invalid commit, drift, kill -9, removals, a broker outage."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.projects import quota
from tests.cli.watch_process import Watch, Watched, until
from tests.servers import raw_quotas, tools
from tests.servers.kafka import KafkaCluster

pytestmark = pytest.mark.integration

VERSION = "4.3.1"
RATE = "producer_byte_rate"
MIB = 1024 * 1024.0
OPEN = "  interval: 1s\n  guards: {maxChangeFactor: 1000000}\n"
IN_ORDER = 'kquota_passes_total{cluster="prod",reason="",result="in_order"}'


def rate(broker: KafkaCluster, user: str) -> float | None:
    quotas = raw_quotas.describe(broker.port())
    return quotas.get(raw_quotas.entity(user=user), {}).get(RATE)


def set_by_kafka(broker: KafkaCluster, user: str, value: int) -> None:
    """A user changes quotas with Kafka's own tool, outside kquota."""
    done = tools.kafka_configs(
        VERSION,
        "--bootstrap-server",
        broker.bootstrap(),
        "--alter",
        "--entity-type",
        "users",
        "--entity-name",
        user,
        "--add-config",
        f"{RATE}={value}",
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def broker(empty_kafka) -> KafkaCluster:
    return empty_kafka(VERSION)


def test_a_commit_is_applied_an_invalid_one_is_refused_and_the_last_valid_one_stays_in_force(
    broker: KafkaCluster, tmp_path: Path
) -> None:
    watched = Watched(tmp_path, broker.bootstrap(), OPEN + "  driftDetection: Correct\n")
    good = watched.commit(quota("alice"))
    with Watch(tmp_path) as watch:
        until(lambda: rate(broker, "alice") == 10 * MIB, lambda: watch.log)
        bad = watched.commit(
            quota("alice", "{producerByteRate: 20Mi}"), quota("bob"), "nonsense: {\n"
        )
        watch.wait_for_log(f"{bad[:12]} is refused; {good[:12]} stays in force")
        until(lambda: watch.metric('kquota_revision_refused{cluster="prod"}') == 1)
        assert watch.metric(f'kquota_revision_info{{cluster="prod",revision="{good}"}}') == 1
        # The last good revision stays in effect: drift from it is observed and corrected.
        set_by_kafka(broker, "alice", 7000)
        watch.wait_for_log(
            "drift corrected: user=alice producer_byte_rate was 7 kB/s instead of 10 MiB/s"
        )
        until(lambda: rate(broker, "alice") == 10 * MIB)
        assert rate(broker, "bob") is None
        assert watch.metric('kquota_corrections_total{cluster="prod"}') == 1
        better = watched.commit(quota("alice", "{producerByteRate: 20Mi}"), quota("bob"))
        until(lambda: rate(broker, "bob") == 10 * MIB, lambda: watch.log)
        assert rate(broker, "alice") == 20 * MIB
        watch.wait_for_log(f"{better[:12]} is in force")
        until(lambda: watch.metric('kquota_revision_refused{cluster="prod"}') == 0)
        assert watch.end() == 0
    entries = [
        json.loads(line) for line in (watch.state / ".kquota/audit.jsonl").read_text().splitlines()
    ]
    entries = [entry for entry in entries if entry["outcome"] != "INTENDED"]
    assert [entry["cause"] for entry in entries] == ["Create", "Drift", "Spec", "Create"]
    assert [entry["commit"] for entry in entries] == [good, good, better, better]


def test_after_kill_9_nothing_is_written_again_and_the_watch_continues(
    broker: KafkaCluster, tmp_path: Path
) -> None:
    watched = Watched(tmp_path, broker.bootstrap(), OPEN)
    good = watched.commit(*(quota(f"u{number}") for number in range(50)))
    watch = Watch(tmp_path)
    with watch:
        watch.wait_for_log("prod: 50 applied")
        watch.wait_for_log("prod: recovered")
        assert watch.end(signal.SIGKILL) == -signal.SIGKILL
    watched.commit("nonsense: {\n")
    paths = [watch.state / ".kquota/inventory.json", watch.state / ".kquota/audit.jsonl"]
    before = [path.read_bytes() for path in paths]
    quotas = raw_quotas.describe(broker.port())
    with watch:
        watch.wait_for_log(f"{good[:12]} is in force, as before")
        watch.wait_for_log(f"is refused; {good[:12]} stays in force")
        until(lambda: watch.metric(IN_ORDER) >= 2, lambda: watch.log)
        assert [path.read_bytes() for path in paths] == before
        assert raw_quotas.describe(broker.port()) == quotas
        assert "applied" not in watch.log
        watched.commit(
            quota("u0", "{producerByteRate: 20Mi}"), *(quota(f"u{n}") for n in range(1, 50))
        )
        until(lambda: rate(broker, "u0") == 20 * MIB, lambda: watch.log)
        assert watch.end() == 0


def test_removals_within_an_hour_are_counted_together_across_a_restart(
    broker: KafkaCluster, tmp_path: Path
) -> None:
    confirmed = f"  expectedClusterId: {broker.cluster_id}\n  confirmSync: {broker.cluster_id}\n"
    watched = Watched(
        tmp_path,
        broker.bootstrap(),
        confirmed + "  interval: 1s\n  policy: Sync\n  guards: {maxRemovals: 2}\n",
    )
    users = [f"u{number}" for number in range(6)]
    watched.commit(*map(quota, users))
    watch = Watch(tmp_path)
    with watch:
        watch.wait_for_log("prod: 6 applied")
        watched.commit(*map(quota, users[2:]))
        until(lambda: rate(broker, "u1") is None and rate(broker, "u0") is None, lambda: watch.log)
        watch.wait_for_log("prod: 2 applied")
        assert watch.end(signal.SIGKILL) == -signal.SIGKILL
    watched.commit(*map(quota, users[3:]), quota("new"))
    with watch:
        watch.wait_for_log(
            "not made: user=u2 producer_byte_rate: namespace team: 3 removals are more than the 2 that are allowed,"
            " 2 of them made in the last hour"
        )
        until(lambda: rate(broker, "new") == 10 * MIB, lambda: watch.log)
        assert rate(broker, "u2") == 10 * MIB
        assert watch.metric('kquota_withheld_operations{cluster="prod",guard="maxRemovals"}') == 1
        # The guard is relaxed in the reviewed configuration, and the removal is executed.
        watched.settings = watched.settings.replace("maxRemovals: 2", "maxRemovals: 5")
        watched.commit(*map(quota, users[3:]), quota("new"))
        until(lambda: rate(broker, "u2") is None, lambda: watch.log)
        assert watch.end() == 0


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[KafkaCluster]:
    """A broker for this test only, because it is stopped."""
    with KafkaCluster(VERSION) as cluster:
        yield cluster


def test_a_broker_that_returns_after_an_outage_gets_every_declared_value(
    own_broker: KafkaCluster, tmp_path: Path
) -> None:
    quick = "  properties: {default.api.timeout.ms: 2000, request.timeout.ms: 2000}\n"
    watched = Watched(tmp_path, own_broker.bootstrap(), OPEN + quick)
    watched.commit(quota("alice"))
    with Watch(tmp_path) as watch:
        until(lambda: rate(own_broker, "alice") == 10 * MIB, lambda: watch.log)
        own_broker.kill(1)
        watch.wait_for_log("next try in")
        new = watched.commit(quota("alice"), quota("bob"))
        watch.wait_for_log(f"{new[:12]} is in force")
        assert watch.get("/healthz")[0] == 200
        own_broker.start(1)
        until(lambda: rate(own_broker, "bob") == 10 * MIB, lambda: watch.log)
        until(lambda: watch.metric(IN_ORDER) >= 2)
        assert rate(own_broker, "alice") == 10 * MIB
        assert watch.end() == 0
    assert "Traceback" not in watch.log
