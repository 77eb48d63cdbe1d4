"""A snapshot is lossless, and equal facts give equal bytes."""

import pytest

from reconciler.codecs.state import read_state, state_document
from reconciler.errors import ConfigError
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.state import QuotaState
from reconciler.render.json_values import dump

STATE = QuotaState(
    limits={
        entity(user="z"): (None, 2.0, None, None, None),
        entity(user=DEFAULT): (1.5, None, 1e-7, None, None),
        entity(user="<default>"): (2.0**63, None, float("inf"), None, None),
        entity(user="a\nb", client_id=""): (None, None, None, None, None),
        entity(ip="::1"): (None, None, None, None, 3.0),
    },
    foreign_values={entity(user="a\nb", client_id=""): (("new_rate", 7.0),)},
    foreign_entities=(((("client-id-prefix", "a"),), (("producer_byte_rate", 9.0),)),),
)


def test_a_state_is_read_as_it_was_written():
    text = dump(state_document(STATE, cluster_id="lkc", taken_at="2025-11-21T12:00:00Z"))
    assert read_state(text, location="s.json") == ("lkc", "2025-11-21T12:00:00Z", STATE)


def test_the_document_does_not_depend_on_the_order_of_the_response():
    turned = QuotaState(
        limits=dict(reversed(STATE.limits.items())),
        foreign_values=STATE.foreign_values,
        foreign_entities=STATE.foreign_entities,
    )
    first, second = (
        dump(state_document(s, cluster_id="lkc", taken_at="")) for s in (STATE, turned)
    )
    assert first == second


def test_a_repeated_entity_is_refused():
    text = dump(state_document(STATE, cluster_id="lkc", taken_at="")).replace('"z"', '"<default>"')
    with pytest.raises(
        ConfigError, match=r"entries\[\d\]\.entity should be an entity that occurs only once"
    ):
        read_state(text, location="s.json")


def test_a_null_value_in_a_state_is_refused():
    text = '{"kind":"kquota-state","format":1,"clusterId":"a","entries":[{"entity":[["user","a"]],"values":{"x":null}}],"foreign":[]}'
    with pytest.raises(
        ConfigError, match=r"entries\[0\]\.values\[\.\.\.\] should be int \| float \| str, not null"
    ):
        read_state(text, location="s.json")
