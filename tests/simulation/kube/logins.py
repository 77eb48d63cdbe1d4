"""The login of the operator: users of the brokers, the Secret with it, the user who changes both, and its laws."""

import asyncio
import base64
import json
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reconciler.base.http.messages import HttpResponse
from tests.simulation.kube.api_server import ApiServer, Obj
from tests.simulation.kube.operators import HOME
from tests.simulation.kube.resources import CLUSTER
from tests.simulation.laws import LATE_SECONDS, LawBroken

if TYPE_CHECKING:
    from tests.simulation.kube.operator_world import OperatorWorld

NAME = "kafka"
"""Name of the Secret."""

GRANT = "kafka-quotas.io/quota-cluster"
SPEC: Mapping[str, Any] = {
    "secretRef": {"name": NAME},
    "properties": {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"},
}
"""What the QuotaCluster says about the login."""

FIRST_USER, FIRST_PASSWORD = "operator-1", "password-of-operator-1"
SHORTEST_OUTAGE, LONGEST_OUTAGE = 5.0, 300.0
"""Shortest time in seconds until a broken login works again, and what is added to it at most."""


class Logins:
    """The users of the brokers, and the Secret.

    Args:
        server: The API server that has the Secret.
        users: The users of the brokers; changed in place.
    """

    def __init__(self, server: ApiServer, users: dict[str, str]) -> None:
        self._server, self._users = server, users
        self.user, self._number = FIRST_USER, 1

    def restore(self) -> None:
        """Make the login work: the brokers have the user, and the Secret has it and lists the QuotaCluster."""
        _ = self._users.setdefault(self.user, self._new_password())
        self.write({"username": self.user, "password": self._users[self.user]})

    def write(self, texts: Mapping[str, str], *, grant: str = f"other, {CLUSTER}") -> None:
        """Write the Secret."""
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
        self.put(encoded, grant=grant)

    def put(self, encoded: Mapping[str, str], *, grant: str = CLUSTER) -> None:
        """Write the Secret with values as they are stored."""
        metadata = {"name": NAME, "namespace": HOME, "annotations": {GRANT: grant}}
        obj = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": dict(encoded)}
        _ = self._server.put("security", "secrets", obj)

    def rotate(self) -> str:
        """Create a user, and write its login into the Secret; return the earlier user."""
        before = self.user
        self._number += 1
        self.user = f"operator-{self._number}"
        self._users[self.user] = self._new_password()
        self.restore()
        return before

    def change_password(self) -> None:
        """Change the password at the brokers; the Secret has the old one."""
        self._number += 1
        self._users[self.user] = self._new_password()

    def forget(self, user: str) -> None:
        """Remove a user of the brokers, unless the Secret should have it; open connections stay."""
        if user != self.user:
            _ = self._users.pop(user, None)

    def break_secret(self, chance: random.Random) -> str:
        """Make the Secret unusable; return how."""
        password = self._users.get(self.user, "")
        broken: Mapping[str, Mapping[str, str]] = {
            "a wrong password": {"username": self.user, "password": "not-the-password"},
            "a user that does not exist": {"username": "operator-0", "password": password},
            "no password": {"username": self.user},
            "no key": {},
            "an invalid property": {"sasl.mechanism": "NONSENSE", "username": self.user},
        }
        how = chance.choice(("values that are not base64", *broken))
        if how in broken:
            self.write(broken[how])
        else:
            self.put({"username": "%", "password": "%"})
        return how

    def delete_secret(self) -> None:
        """Delete the Secret."""
        if self._server.find("secrets", HOME, NAME) is not None:
            self._server.remove("security", ("secrets", HOME, NAME))

    def withdraw(self) -> None:
        """Remove the QuotaCluster from the annotation of the Secret."""
        self.write({"username": self.user, "password": self._users[self.user]}, grant="other")

    def _new_password(self) -> str:
        return f"password-of-{self.user}-{self._number}"


async def security(world: "OperatorWorld") -> None:
    """Rotate the login repeatedly, or break it for some time."""
    chance, logins = world.scenario.chance("security"), world.logins
    while logins is not None and await world.rest(chance, 3.0):
        seconds = SHORTEST_OUTAGE + chance.random() * LONGEST_OUTAGE
        deed = chance.choice(("rotates", "rotates", "password", "breaks", "deletes", "withdraws"))
        if deed == "rotates":
            before = logins.rotate()
            overlap = chance.choice((0.0, 30.0, 300.0))
            _ = world.loop.call_later(overlap, logins.forget, before)
            world.trace("security", "rotates to %s, %s ends in %g s", logins.user, before, overlap)
            continue
        if deed == "password":
            world.trace("security", "changes the password of %s", logins.user)
            logins.change_password()
            if chance.random() < 0.5:
                for node in (1, 2, 3):
                    world.brokers.network.cut(node)
        elif deed == "breaks":
            world.trace("security", "writes a Secret with %s", logins.break_secret(chance))
        elif deed == "deletes":
            world.trace("security", "deletes the Secret")
            logins.delete_secret()
        else:
            world.trace("security", "withdraws the Secret")
            logins.withdraw()
        await asyncio.sleep(min(seconds, max(world.scenario.seconds - world.loop.time(), 0.0)))
        logins.restore()
        world.trace("security", "restores the login of %s", logins.user)


class LoginLaws:
    """The laws of the operator's login.

    Attributes:
        last_user: The user of the last request; "" = none.
    """

    def __init__(self) -> None:
        self.last_user = ""
        self._withdrawn: set[str] = set()
        self._since: dict[str, dict[str, float]] = {}

    def secret_read(self, process: str, response: HttpResponse) -> None:
        """Record the Secret that a process has read."""
        if response.status != 200:
            return
        metadata = json.loads(response.body)["metadata"]
        names = metadata.get("annotations", {}).get(GRANT, "").split(",")
        if CLUSTER in {name.strip() for name in names}:
            self._withdrawn.discard(process)
        else:
            self._withdrawn.add(process)

    def requested(self, at: float, process: str, user: str) -> None:
        """Record a request for quotas."""
        self.last_user = user
        _ = self._since.setdefault(process, {}).setdefault(user, at)

    def alters(self, process: str) -> None:
        """Check that a process which is about to alter quotas has not read that its Secret is withdrawn."""
        if process in self._withdrawn:
            raise LawBroken(f"quotas are altered with a Secret that is withdrawn: by {process}")

    def committed(self, at: float, process: str, user: str) -> None:
        """Check that a write does not come from an earlier login of its process."""
        for newer, since in self._since.get(process, {}).items():
            if number_of(newer) > number_of(user) and since < at - LATE_SECONDS:
                raise LawBroken(
                    f"a write with a replaced login: by {process} as {user}, which is {newer} since"
                    f" {at - since:.0f} s"
                )


def number_of(user: str) -> int:
    """Return the number of a user; later users have larger ones."""
    return int(user.rpartition("-")[2])


def reveals_password(obj: Obj) -> bool:
    """Whether an object that the operator wrote shows a password."""
    return "password-of-operator" in str(obj)
