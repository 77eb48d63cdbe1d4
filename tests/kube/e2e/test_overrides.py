"""`kquota override --kubernetes` with a running operator: in effect at once, reported, ended at its time."""

import subprocess
import threading

import pytest

from tests.kube.e2e.seeing import audited
from tests.kube.e2e.world import KQUOTA, World, eventually
from tests.servers.processes import HANG_SECONDS

pytestmark = pytest.mark.integration

MIB = 1048576.0


def kquota(world: World, *arguments: str, code: int = 0) -> str:
    """The output of `kquota override ... --kubernetes` for an administrator."""
    done = subprocess.run(
        [
            str(KQUOTA),
            "override",
            *arguments,
            "--kubernetes",
            "--cluster=prod",
            f"--operator-namespace={world.place.namespace}",
            f"--kubeconfig={world.kube.kubeconfig}",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def rate(world: World, user: str) -> float | None:
    return world.live().get(user, {}).get("producer_byte_rate")


def test_an_override_is_in_force_until_it_expires_despite_other_changes(world: World) -> None:
    world.cluster()
    operator = world.start()
    for name in ("alice", "bob", "carol"):
        world.quota(name)
        world.becomes(name, "Synced")

    over = threading.Event()

    def keep_writing() -> None:
        for number in range(200):
            if over.is_set():
                return
            # By kubectl, because the connection of the world is for the thread of the test.
            document = world.document(
                f"other-{number % 10}", limits={"producerByteRate": MIB + number}
            )
            world.kube.apply(document, namespace=world.team)

    busy = threading.Thread(target=keep_writing)
    busy.start()
    try:
        output = kquota(
            world,
            "set",
            "user=alice",
            "producer_byte_rate=50Mi",
            "--for=1h",
            "--reason=INC-1",
            "--yes",
        )
        assert "override recorded" in output
        assert rate(world, "alice") == 50 * MIB, "it returned at the end of a reconciliation"
        obj = world.becomes("alice", "OverrideActive")
        key = obj["status"]["keys"][0]
        assert "INC-1" in str(obj["status"])
        assert key["desired"] in {1048576, "1048576", "1Mi"}, "the declared value is shown, too"
        assert "INC-1" in kquota(world, "list")
        _ = kquota(
            world,
            "set",
            "user=bob",
            "producer_byte_rate=unset",
            "--for=1h",
            "--reason=INC-2",
            "--yes",
        )
        assert rate(world, "bob") is None
        # A changed declaration waits for the end of the override.
        world.quota("alice", limits={"producerByteRate": "2Mi"})
        world.becomes("alice", "OverrideActive")
        assert rate(world, "alice") == 50 * MIB
        _ = kquota(
            world,
            "set",
            "user=carol",
            "producer_byte_rate=50Mi",
            "--for=5s",
            "--reason=INC-3",
            "--yes",
        )
        eventually(lambda: rate(world, "carol") == MIB, what="the end of a short override")
        world.becomes("carol", "Synced")
    finally:
        over.set()
        busy.join()
    for name, declared in (("alice", 2 * MIB), ("bob", MIB)):
        _ = kquota(world, "end", f"user={name}", "--yes")
        assert rate(world, name) == declared
        world.becomes(name, "Synced")

    entries = audited(operator)
    for name, values in (
        ("alice", [MIB, 50 * MIB, 2 * MIB]),
        ("bob", [MIB, None, MIB]),
        ("carol", [MIB, 50 * MIB, MIB]),
    ):
        assert [entry["after"] for entry in entries if name in str(entry["entity"])] == values
    for number in range(10):
        name = f"other-{number}"
        if world.get(name):
            world.becomes(name, "Synced")
    # An undeclared key has no value to restore.
    refused = kquota(
        world,
        "set",
        "user=nobody",
        "producer_byte_rate=1Mi",
        "--for=1h",
        "--reason=x",
        "--yes",
        code=1,
    )
    assert "user=nobody" in refused
    eventually(lambda: "INC" not in kquota(world, "list"))
