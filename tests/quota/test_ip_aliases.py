"""Two spellings of one address: the plan that sets one prints how to remove the other."""

import pytest

from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.ip_aliases import find_ip_aliases, is_named_ip, spellings_of
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState

WANTED = entity(ip="10.0.0.1")


def live(*addresses: str | None) -> QuotaState:
    return QuotaState(
        limits={entity(ip=address): (None, None, None, None, 5.0) for address in addresses}
    )


@pytest.mark.parametrize("spelling", ["010.0.0.1", "10.1", "::ffff:10.0.0.1"])
def test_a_live_ip_alias_is_reported_with_the_command_that_removes_it(spelling):
    (twin,) = find_ip_aliases(
        [WANTED], live(spelling, "10.0.0.1", "192.0.2.1", "localhost", DEFAULT)
    )
    assert (twin.entity, twin.live) == (WANTED, entity(ip=spelling))
    assert twin.keys == ("connection_creation_rate",)
    rate = Key.CONNECTION_CREATION_RATE
    assert twin.pairs == ((WANTED, rate), (entity(ip=spelling), rate))
    assert twin.removal == (
        "kafka-client-quotas --bootstrap-server HOST:PORT --alter"
        f" --names=ip={spelling} --delete=connection_creation_rate"
    )


def test_ip_aliases_are_sorted_and_users_have_none():
    state = QuotaState(
        limits={
            **live("::ffff:10.0.0.1", "10.1").limits,
            entity(user="10.1"): (1.0, None, None, None, None),
        }
    )
    assert [alias.live[2] for alias in find_ip_aliases([WANTED], state)] == [
        "10.1",
        "::ffff:10.0.0.1",
    ]


def test_without_an_address_no_ip_alias_is_searched():
    assert find_ip_aliases([], live("10.1")) == ()
    assert find_ip_aliases([entity(ip="localhost")], live("localhost")) == ()


def test_only_a_named_ip_has_an_address():
    assert is_named_ip(WANTED)
    assert not is_named_ip(entity(ip=DEFAULT))
    assert not is_named_ip(entity(user="10.0.0.1"))


def test_the_command_that_removes_an_ip_alias_is_safe_in_a_shell():
    (twin,) = find_ip_aliases([entity(ip="fe80::1")], live("fe80::1%a b;c"))
    assert "--names=ip='fe80::1%a b;c' --delete" in twin.removal


def test_spellings_are_grouped_by_address_without_host_names():
    state = live("10.1", "10.0.0.1", "localhost", "::1", DEFAULT)
    assert spellings_of(state) == {
        "10.0.0.1": (entity(ip="10.0.0.1"), entity(ip="10.1")),
        "::1": (entity(ip="::1"),),
    }
