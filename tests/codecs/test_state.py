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


def test_a_repeated_entity_is_refused():
    text = dump(state_document(STATE, cluster_id="lkc", taken_at="")).replace('"z"', '"<default>"')
    with pytest.raises(
        ConfigError, match=r"entries\[\d\]\.entity should be an entity that occurs only once"
    ):
        read_state(text, location="s.json")
