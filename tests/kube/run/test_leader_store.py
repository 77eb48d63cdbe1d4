"""An operator without a certain lease alters nothing in Kafka, but may read."""

import asyncio

import pytest

from reconciler.errors import LeaseLost
from reconciler.kube.run.operator_ports import KafkaWrites, LeadingStore
from reconciler.kube.status.conditions import trouble_of
from reconciler.kube.status.reasons import Reason
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import Alteration, Filter
from tests.fakes.cluster import FakeCluster

ALICE = entity(user="alice")
CHANGE = (Alteration(entity=ALICE, operations=((Key.PRODUCER_BYTE_RATE, 2048.0),)),)


def test_no_alteration_is_sent_once_the_lease_is_uncertain() -> None:
    kafka, leads = FakeCluster(), [True]
    store = LeadingStore(kafka, lambda: leads[0], KafkaWrites())
    asyncio.run(store.alter(CHANGE))
    leads[0] = False
    with pytest.raises(LeaseLost, match="nothing was sent"):
        asyncio.run(store.alter(CHANGE))
    assert kafka.sent == [CHANGE]


def test_a_write_is_counted_before_the_leadership_is_checked_and_until_its_end() -> None:
    kafka, writes, counts = FakeCluster(), KafkaWrites(), []

    def leads() -> bool:
        counts.append(writes.count)
        return len(counts) == 1

    store = LeadingStore(kafka, leads, writes)
    kafka.faults.before = lambda _: counts.append(writes.count)
    asyncio.run(store.alter(CHANGE))
    assert counts == [1, 1, 1]
    with pytest.raises(LeaseLost):
        asyncio.run(store.alter(CHANGE))
    assert writes.count == 0


def test_a_former_leader_still_describes() -> None:
    kafka = FakeCluster()
    store = LeadingStore(kafka, lambda: False, KafkaWrites())
    assert asyncio.run(store.cluster()).id == kafka.cluster_id
    assert asyncio.run(store.describe(Filter())).limits == {}


def test_documents_do_not_show_a_failure_because_another_process_leads() -> None:
    assert trouble_of(LeaseLost("x")).reason is Reason.PENDING


def test_a_write_refused_without_the_lease_is_retriable() -> None:
    assert LeaseLost("x").retriable
