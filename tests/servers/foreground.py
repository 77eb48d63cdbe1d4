"""`python -m tests.servers.kafka 4.3.1`: runs a cluster in the foreground, for the demo and manual tests.

Prints one JSON line with addresses and client properties; stops on SIGTERM, Ctrl-C or when stdin closes.
"""

import argparse
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.servers import jars
from tests.servers.kafka import KafkaCluster
from tests.servers.node import ServerFailed
from tests.servers.properties import Listener


def parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(prog="python -m tests.servers.kafka", description=__doc__)
    arguments.add_argument("version", choices=jars.VERSIONS)
    arguments.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    arguments.add_argument("--acls", action="store_true", help="planner and applier rights only")
    arguments.add_argument(
        "--listener",
        action="append",
        choices=[listener.value for listener in Listener],
        help="may be given several times (default: PLAINTEXT)",
    )
    arguments.add_argument("--heap", type=int, metavar="MIB", help="heap of each node")
    arguments.add_argument(
        "--property",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="one more server property, for example quota.window.num=2",
    )
    return arguments


def announcement(cluster: KafkaCluster) -> dict[str, object]:
    """Return the document of the JSON line: broker addresses, and client properties for each listener."""
    return {
        "version": cluster.version,
        "clusterId": cluster.cluster_id,
        "bootstrap": cluster.bootstrap(cluster.listeners[0]),
        "listeners": {
            listener.value: cluster.client_properties(listener) for listener in cluster.listeners
        },
        "folder": str(cluster.folder),
        "pids": {str(number): cluster.pid(number) for number in cluster.numbers},
    }


@contextmanager
def asked_to_stop() -> Iterator[selectors.BaseSelector]:
    """Return a selector that becomes ready at SIGTERM, at Ctrl-C, or when stdin has input or closes."""
    bell, rope = socket.socketpair()
    bell.setblocking(False)
    before = signal.set_wakeup_fd(bell.fileno())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # the wakeup descriptor makes the selector ready
    with bell, rope, selectors.SelectSelector() as waiting:
        waiting.register(rope, selectors.EVENT_READ)
        waiting.register(sys.stdin.fileno(), selectors.EVENT_READ)
        try:
            yield waiting
        finally:
            signal.set_wakeup_fd(before)


def wait_for_the_end(waiting: selectors.BaseSelector) -> None:
    """Wait for a signal or the end of stdin; ignore other input."""
    while True:
        for ready, _ in waiting.select():
            if ready.fileobj != sys.stdin.fileno() or not os.read(sys.stdin.fileno(), 4096):
                return


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cluster; return 0 after a normal stop, 1 with a message on stderr after a failed start."""
    options = parser().parse_args(arguments)
    cluster = KafkaCluster(
        options.version,
        nodes=options.nodes,
        listeners=options.listener or (Listener.PLAINTEXT,),
        acls=options.acls,
        extra=dict(pair.split("=", 1) for pair in options.property),
        heap_megabytes=options.heap,
    )
    try:
        with asked_to_stop() as waiting, cluster:
            sys.stdout.write(json.dumps(announcement(cluster)) + "\n")
            sys.stdout.flush()
            wait_for_the_end(waiting)
    except (jars.ServersUnavailable, ServerFailed) as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    return 0
