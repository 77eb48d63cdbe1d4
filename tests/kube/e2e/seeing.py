"""Observations of end-to-end tests besides statuses: sequences of values, records, requests, the audit log."""

import contextlib
import json
import threading
from collections.abc import Iterator
from typing import Any, Self

from reconciler.kube.records.config_maps import read
from reconciler.kube.records.stored_records import selector
from reconciler.quota.entity import entity_text
from reconciler.quota.ownership import OwnershipRecords
from tests.kube.e2e.world import Operator, World, eventually
from tests.servers import ping, raw_quotas
from tests.servers.fault_proxy import FaultProxy, in_front_of

FINALIZER = "kafka-quotas.io/release"


class History:
    """All states of one user's quotas in the order in which a broker showed them, polled in a tight loop."""

    def __init__(self, port: int, user: str) -> None:
        self.states: list[dict[str, float]] = []
        self._port, self._owner = port, raw_quotas.entity(user=user)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        with ping.connected(self._port) as connection:
            while not self._over.wait(0.002):
                quotas = raw_quotas.describe_over(connection).get(self._owner, {})
                if not self.states or self.states[-1] != quotas:
                    self.states.append(quotas)

    def of(self, key: str) -> list[float | None]:
        """The successive values of a key; None = not set."""
        values: list[float | None] = []
        for state in self.states:
            if not values or values[-1] != state.get(key):
                values.append(state.get(key))
        return values


def has_finalizer(obj: dict[str, Any]) -> bool:
    """Whether the object has the finalizer of kquota."""
    return FINALIZER in obj["metadata"].get("finalizers", [])


def records(world: World) -> OwnershipRecords:
    """The records in the ConfigMaps of the operator's namespace, for the current Kafka cluster."""
    cluster_id = world.kafka.cluster_id
    completed = world.kube.kubectl(
        "get", "configmaps", "-n", world.place.namespace, "-l", selector(cluster_id), "-o", "json"
    )
    config_maps = json.loads(completed.stdout)["items"]
    return read(cluster_id, config_maps).owned


def orphans(world: World) -> set[str]:
    """Entity and key of each orphaned pair in the ConfigMaps."""
    return {f"{entity_text(entity)} {key}" for entity, key in records(world).orphaned}


def cluster_events(world: World, reason: str, name: str = "prod") -> dict[str, str]:
    """Reason -> note of the events of a QuotaCluster, once it has the one with this reason.

    An event is posted after the status and the finalizers of its reconciliation. Events of earlier objects of the same
    name do not count.
    """
    uid = world.get(name, kind="quotacluster")["metadata"]["uid"]

    def notes() -> dict[str, str]:
        events = world.events("default")
        of_this = [event for event in events if event["regarding"].get("uid") == uid]
        return {event["reason"]: event["note"] for event in of_this}

    eventually(lambda: reason in notes(), what=f"the event {reason} of {name}")
    return notes()


def audited(operator: Operator) -> list[dict[str, Any]]:
    """The outcomes of a process's own writes and held changes, from its printed audit log."""
    lines = operator.log.read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines if line.startswith("{")]
    return [
        entry for entry in entries if entry["outcome"] != "INTENDED" and "settledAt" not in entry
    ]


@contextlib.contextmanager
def watched_kafka(world: World) -> Iterator[FaultProxy]:
    """A proxy in front of the broker, which the QuotaCluster `prod` uses."""
    with in_front_of(world.kafka) as proxies:
        yield proxies[1]


def through(proxy: FaultProxy) -> str:
    """Bootstrap servers that use a proxy."""
    return f"127.0.0.1:{proxy.port}"


def sent(proxy: FaultProxy) -> int:
    """The number of requests that alter quotas."""
    return sum(request.writes for request in list(proxy.requests))
