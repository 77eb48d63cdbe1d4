"""The Kafka entity of a ClientQuota, from a spec that may break rules elsewhere, or otherwise from its status."""

import pytest

from reconciler.quota.entity import DEFAULT, entity
from tests.kube.worlds import seen


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"user": {"name": "alice"}}, entity(user="alice")),
        ({"user": {"default": True}}, entity(user=DEFAULT)),
        (
            {"user": {"name": "a"}, "clientId": {"default": True}},
            entity(user="a", client_id=DEFAULT),
        ),
        ({"ip": {"name": "10.0.0.1"}}, entity(ip="10.0.0.1")),
        ({}, None),
        (None, None),
        ("user", None),
        ({"group": {"name": "x"}}, None),
        ({"user": {"default": False}}, None),
        ({"user": {"name": 7}}, None),
        ({"user": {"name": "a"}, "ip": {"name": "10.0.0.1"}}, None),
    ],
)
def test_the_entity_of_a_spec_is_returned_or_none(parts: object, expected: object) -> None:
    assert seen({"spec": {"entity": parts, "limits": "broken"}}).declared_entity == expected


def test_the_entity_is_read_from_the_status_if_the_spec_is_unreadable() -> None:
    obj = {"spec": {"entity": {"user": []}}, "status": {"entity": "user=alice,client-id=<default>"}}
    assert seen(obj).entity == entity(user="alice", client_id=DEFAULT)
    assert seen(obj | {"spec": {"entity": {"user": {"name": "bob"}}}}).entity == entity(user="bob")
    assert seen(obj | {"status": {"entity": "no entity"}}).entity is None
    assert seen({"spec": {}}).entity is None
