"""The minimum cost of an apply: ``python -m tests.bench.floor PORT FILE`` only replays encoded requests.

It sends the requests that every client needs (one describe, the validation, the changes, polls until the last change
is visible, one describe) over one connection and decodes no response. It has no plan, no records, no audit log and no
output, so the difference to an apply is the cost of the program itself.
"""

import contextlib
import json
import pickle
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench import documents
from tests.servers import ping

DESCRIBE, ALTER, VERSION = 48, 49, 1
POLL_SECONDS = 0.02
EVERYTHING = b"\x01\x00\x00"  # no component, not strict, no tags


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """Encoded bodies of one apply."""

    validations: Sequence[bytes]  # requests that only validate
    changes: Sequence[bytes]  # requests that write
    poll: bytes  # describe of the entity that is written last
    expected: bytes  # bytes of its response once the change is visible


def frames(offset: int) -> Frames:
    """Requests for the documents of :func:`tests.bench.documents.write_manifests`, chunked like those of an apply."""
    from reconciler.client.wire_translation import alteration_request, filter_request
    from reconciler.quota.entity import entity
    from reconciler.quota.filters import exactly
    from reconciler.quota.outcome import Alteration
    from reconciler.quota.planner.send_order import chunks
    from reconciler.wire.messages import alter_client_quotas, describe_client_quotas

    alterations = [
        Alteration(
            entity(user=f"user-{number:05d}", client_id=f"client-{number:05d}"),
            (
                ("producer_byte_rate", float(1_000_000 + number + offset)),
                ("consumer_byte_rate", float((2_000 + number + offset) * 1024)),
                ("request_percentage", 50.5 + offset + number % 50),
            ),
        )
        for number in range(documents.DOCUMENTS)
    ]

    def requests(*, validate_only: bool) -> list[bytes]:
        return [
            alter_client_quotas.encode_request(
                VERSION, map(alteration_request, chunk), validate_only=validate_only
            )
            for chunk in chunks(alterations)
        ]

    last = alterations[-1]
    return Frames(
        validations=requests(validate_only=True),
        changes=requests(validate_only=False),
        poll=describe_client_quotas.encode_request(VERSION, filter_request(exactly(last.entity))),
        expected=struct.pack(">d", last.operations[0][1]),
    )


def write(path: Path, offset: int) -> None:
    """Write the requests for a process that imports no encoder."""
    encoded = frames(offset)
    path.write_bytes(
        pickle.dumps((encoded.validations, encoded.changes, encoded.poll, encoded.expected))
    )


def replay(port: int, path: Path) -> dict[str, int]:
    """Round trips (the connection is one) and bytes of a replay."""
    validations, changes, poll, expected = pickle.loads(path.read_bytes())  # noqa: S301 - written by this module
    counted = {"round_trips": 1, "sent": 0, "received": 0}
    with ping.connected(port, seconds=60) as connection:

        def ask(key: int, body: bytes) -> bytes:
            answer = ping.exchange(connection, key, VERSION, body, flexible=True)
            counted["round_trips"] += 1
            counted["sent"] += len(body)
            counted["received"] += len(answer)
            return answer

        ask(DESCRIBE, EVERYTHING)
        for body in (*validations, *changes):
            ask(ALTER, body)
        while expected not in ask(DESCRIBE, poll):
            time.sleep(POLL_SECONDS)
        ask(DESCRIBE, EVERYTHING)
    return counted


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(replay(int(sys.argv[1]), Path(sys.argv[2]))))
