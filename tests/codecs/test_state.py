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


@pytest.mark.parametrize(
    ("digits", "value"),
    [
        ("9223372036854775807", 2.0**63),
        ("9223372036854776000", 2.0**63),  # of jq and JavaScript
        ("-1000000000000000000000", -1e21),
        ("9007199254740993", 2.0**53),
        ("9007199254740991", 2.0**53 - 1),
        ("5", 5.0),
    ],
)
def test_a_value_without_an_exponent_is_read_as_other_tools_write_it(digits, value):
    subject = entity(user="a")
    state = QuotaState(limits={subject: (7.5, None, None, None, None)})
    text = dump(state_document(state, cluster_id="lkc", taken_at="")).replace("7.5", digits)
    _, _, read = read_state(text, location="s.json")
    assert read.limits == {subject: (value, None, None, None, None)}


def test_a_value_that_no_float64_is_near_is_refused():
    text = dump(state_document(STATE, cluster_id="lkc", taken_at="")).replace("1e-07", "1" * 400)
    with pytest.raises(ConfigError, match=r"values\.\S+ should be float <= 1\.79"):
        read_state(text, location="s.json")


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
        ConfigError, match=r"entries\[0\]\.values\.x should be int \| float \| str, not null"
    ):
        read_state(text, location="s.json")
