"""A law of all passes: a limit whose document with deletionPolicy Delete is gone is removed, whatever ended any pass.

Documents are created and deleted, operators end before any request or get an error, with and without a fence, and writes
to Kafka are lost or land within 60 s. When the faults are over, a few passes remove what nothing declares.
"""

from collections.abc import Callable
from functools import partial

from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.errors import ConnectError, KquotaError, KubernetesUnavailable
from reconciler.kube.api.custom_resources import FINALIZER
from reconciler.quota.entity import Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import SETTLING_SECONDS
from reconciler.quota.policy import DeletionPolicy
from tests.fakes.cluster import LANDED, LATE, LOST
from tests.kube.worlds import World, resource

RATE = Key.PRODUCER_BYTE_RATE
USERS = ("alice", "bob")
LONGEST_LANDING = 60.0
"""How long a broker retries an alteration, in seconds."""

MOST_REQUESTS = 60
"""About as many requests as a pass sends."""


class Killed(BaseException):
    """The operator is gone."""


class DeletedWorld(World):
    """A world in which operators end, and writes land late."""

    def __init__(self) -> None:
        super().__init__(
            patience=1e9, policy="Sync", confirmSync="fake-cluster", guards={"maxRemovals": 1000}
        )
        self.late_since: float | None = None
        self.requests_left: int | None = None
        self.is_kill = False
        self.api.before = partial(self.request, KubernetesUnavailable("away"))
        self.kafka.faults.before = partial(self.request, ConnectError("away"))
        self.uids = 0

    def request(self, error: KquotaError, *_: str) -> None:
        """End the operator before a request, or let the request fail, if that is planned."""
        if self.requests_left is None:
            return
        self.requests_left -= 1
        if self.requests_left < 0 and self.is_kill:
            raise Killed
        if self.requests_left == -1:
            raise error

    def declare(self, user: str, value: int) -> None:
        """Create or change a document, unless it is being deleted."""
        if not self.exists(user):
            self.uids += 1
            spec = {"deletionPolicy": DeletionPolicy.DELETE.value}
            obj = resource(user, entity(user=user), {RATE: value}, **spec)
            obj["metadata"]["uid"] = f"uid-{self.uids}"
            self.put(obj)
        elif "deletionTimestamp" not in self.obj(user)["metadata"]:
            self.change(user, limits={"producerByteRate": value})

    def remove(self, user: str) -> None:
        """Delete a document, if there is one."""
        if self.exists(user):
            self.delete(user)

    def pass_once(
        self, requests: int | None, fate: str, *, is_kill: bool = False, **wake: object
    ) -> None:
        """Reconcile once; before a request the operator ends or gets an error, ``None`` = it does not."""
        self.requests_left, self.is_kill = requests, is_kill
        entities: list[Entity] = [entity(user=user) for user in USERS] if fate else []
        self.kafka.faults.unknown = dict.fromkeys(entities, fate)
        try:
            _ = self.turn(**wake)
        except KquotaError:
            assert self.requests_left is not None  # The loop tries again.
        except (Killed, BaseExceptionGroup):
            assert self.is_kill
            self.begin()
        finally:
            self.requests_left = None
        if self.kafka._late and self.late_since is None:
            self.late_since = self.kafka.clock.now()

    def advance(self, seconds: float) -> None:
        """Let time pass; what a broker retries lands at the latest after a minute."""
        now = self.kafka.clock.now()
        if self.late_since is not None and now + seconds >= self.late_since + LONGEST_LANDING:
            self.land()
        self.kafka.clock.advance(seconds)

    def land(self) -> None:
        """Let the late writes take effect."""
        self.kafka.land_late_ones()
        self.late_since = None


FATES = st.sampled_from(["", "", "", LOST, LANDED, LATE, LATE])
STEPS: st.SearchStrategy[Callable[[DeletedWorld], object]] = st.one_of(
    st.builds(
        lambda user, value: lambda world: world.declare(user, value),
        st.sampled_from(USERS),
        st.sampled_from([1_000_000, 2_000_000]),
    ),
    st.builds(lambda user: lambda world: world.remove(user), st.sampled_from(USERS)),
    st.builds(
        lambda requests, fate, is_kill, resync: (
            lambda world: world.pass_once(requests, fate, is_kill=is_kill, resync=resync)
        ),
        st.none() | st.integers(0, MOST_REQUESTS),
        FATES,
        st.booleans(),
        st.booleans(),
    ),
    st.builds(
        lambda seconds: lambda world: world.advance(seconds), st.sampled_from([1.0, 20.0, 59.0])
    ),
    st.just(DeletedWorld.begin),
    st.booleans().map(lambda is_fenced: lambda world: setattr(world, "fenced", is_fenced)),
    st.just(DeletedWorld.land),
)


@example(
    steps=[
        lambda world: world.declare("bob", 1_000_000),
        lambda world: world.pass_once(None, LATE),
        lambda world: world.remove("bob"),
        lambda world: world.pass_once(None, ""),
    ],
    is_restarted=True,
)
@given(steps=st.lists(STEPS, max_size=25), is_restarted=st.booleans())
def test_a_limit_whose_document_with_deletion_policy_delete_is_gone_is_removed(
    steps: list[Callable[[DeletedWorld], object]], is_restarted: bool
) -> None:
    world = DeletedWorld()
    for step in steps:
        step(world)
    world.land()
    world.fenced = False
    if is_restarted:
        world.begin()
    for _ in range(4):
        world.pass_once(None, "", resync=True)
        world.advance(SETTLING_SECONDS)
    live = {subject[0] for subject in world.live()}
    assert live == {user for user in USERS if world.exists(user)}
    assert not any("deletionTimestamp" in world.obj(user)["metadata"] for user in live)


def test_a_finalizer_is_not_removed_for_an_earlier_deletion_policy() -> None:
    world = DeletedWorld()
    world.declare("bob", 1_000_000)
    world.pass_once(None, "")
    world.change("bob", deletionPolicy="Retain")

    def change_back(verb: str, *_: str) -> None:
        """The API server carries out the patch after the author has changed the document again."""
        if verb == "patch" and world.obj("bob")["spec"]["deletionPolicy"] == "Retain":
            world.change("bob", deletionPolicy="Delete")
            world.obj("bob")["metadata"]["resourceVersion"] = world.api.next_version()

    world.api.before = change_back
    world.pass_once(None, "")
    assert world.obj("bob")["metadata"]["finalizers"] == [FINALIZER]
    assert world.obj("bob")["spec"]["deletionPolicy"] == "Delete"
