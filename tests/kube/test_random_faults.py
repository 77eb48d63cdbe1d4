"""Documents change while the operator is killed, disconnected and left without responses; it ends as declared."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.quota.entity import entity
from tests.hypothesis_profiles import count_examples
from tests.kube.faulty_worlds import CUT, FATES, KEYS, KILL, REFUSE, Fault, FaultyWorld

VALUES = (2048, 4096, 8192)
NAMES = ("a", "b", "c")
USERS = ("u", "v")

limits = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), min_size=1, max_size=2)
faults = st.builds(
    Fault,
    step=st.integers(0, 22) | st.just(1_000_000),
    kind=st.sampled_from([KILL, KILL, REFUSE, CUT]),
    lost_answers=st.sampled_from(["", "", *FATES]),
    lasting=st.booleans(),
)
actions = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(NAMES), st.sampled_from(USERS), limits),
    st.tuples(st.just("put"), st.sampled_from(NAMES), st.sampled_from(USERS), limits),
    st.tuples(st.just("delete"), st.sampled_from(NAMES)),
    st.tuples(st.just("pass"), faults),
    st.tuples(st.just("pass"), faults),
    st.tuples(st.just("pass"), faults),
    st.tuples(st.just("time"), st.sampled_from([2.0, 30.0, 70.0])),
)


def act(world: FaultyWorld, action: tuple[Any, ...]) -> None:
    match action:
        case ("put", name, user, values):
            names_by_user = {
                str(s[0]): n
                for n, s in world.declared.subjects.items()
                if n in world.declared.limits
            }
            if name in world.declared.limits:
                if names_by_user.get(user) == name:
                    world.update(name, values)
                else:
                    world.remove(name)
            elif user not in names_by_user and not world.exists(name):
                world.create(name, values, user=user)
        case ("delete", name) if name in world.declared.limits:
            world.remove(name)
        case ("pass", fault):
            world.faulty_turn(fault)
            world.pass_time(2.0)
        case ("time", seconds):
            world.pass_time(seconds)
        case _:
            pass


@settings(max_examples=count_examples(100), suppress_health_check=list(HealthCheck))
@given(st.lists(actions, min_size=4, max_size=24))
def test_after_any_faults_the_final_state_is_the_declared_one(plan: list[tuple[Any, ...]]) -> None:
    world = FaultyWorld(foreign={entity(user="eve"): 5000.0})
    for action in plan:
        act(world, action)
    world.settle()
