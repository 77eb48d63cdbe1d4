"""The same ten tasks with kio 0.6.5, a codec. Usage: python kio_codec.py HOST:PORT

Connections, TLS, SASL, negotiation, retries and throttling are left to the caller; this program has only a plain
connection.
"""

import io
import socket
import struct
import sys
import time

from kio.schema.alter_client_quotas.v1 import request as alter_request
from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse
from kio.schema.describe_client_quotas.v1 import request as describe_request
from kio.schema.describe_client_quotas.v1.response import DescribeClientQuotasResponse
from kio.schema.request_header.v2.header import RequestHeader
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import f64, i8, i32

EXACT = i8(0)

# 1 connect: a plain socket
host, port = sys.argv[1].split(",")[0].rsplit(":", 1)
connection = socket.create_connection((host, int(port)))
stream = connection.makefile("rb")


def send(request, response):
    buffer = io.BytesIO()
    header = RequestHeader(
        request_api_key=request.__api_key__,
        request_api_version=request.__version__,
        correlation_id=i32(1),
        client_id="kio",
    )
    entity_writer(RequestHeader)(buffer, header)
    entity_writer(type(request))(buffer, request)
    connection.sendall(struct.pack(">i", buffer.tell()) + buffer.getvalue())
    frame = stream.read(struct.unpack(">i", stream.read(4))[0])
    answer, _ = entity_reader(response)(frame[5:], 0)
    return answer


def alter(entities, ops, *, validate_only=False):
    entries = tuple(
        alter_request.EntryData(
            entity=tuple(
                alter_request.EntityData(entity_type=kind, entity_name=name) for kind, name in parts
            ),
            ops=tuple(
                alter_request.OpData(key=key, value=f64(value or 0.0), remove=value is None)
                for key, value in ops
            ),
        )
        for parts in entities
    )
    request = alter_request.AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    return send(request, AlterClientQuotasResponse).entries


def describe(components=(), *, strict=False):
    request = describe_request.DescribeClientQuotasRequest(
        components=tuple(
            describe_request.ComponentData(entity_type=kind, match_type=how, match=name)
            for kind, how, name in components
        ),
        strict=strict,
    )
    return send(request, DescribeClientQuotasResponse).entries


alice = (("user", "alice"),)
# 2 set two quotas of a user
[answer] = alter([alice], [("producer_byte_rate", 1e6), ("consumer_byte_rate", 2e6)])
assert answer.error_code == 0, answer.error_message
# 3 set a quota of the default user
alter([(("user", None),)], [("producer_byte_rate", 5e5)])
# 4 wait until every broker shows it: only the broker of this socket is asked
while not describe([("user", EXACT, "alice")], strict=True):
    time.sleep(0.1)
# 5 read every quota
print(len(describe()), "entities have quotas")
# 6 read only the quotas of one entity
[entry] = describe([("user", EXACT, "alice")], strict=True)
print({value.key: value.value for value in entry.values})
# 7 ask the controller whether it would accept a value, and why not
print(alter([alice], [("producer_byte_rate", 0.5)], validate_only=True)[0].error_message)
# 8 which limit applies to a client, and what it overrides
print("no API: the eight levels of precedence would be written here")
# 9 remove a quota
alter([alice], [("consumer_byte_rate", None)])
# 10 change 10,000 entities: the caller handles chunks and lost responses
answers = [
    answer
    for start in range(0, 10_000, 1000)
    for answer in alter(
        [(("user", f"user-{n}"),) for n in range(start, start + 1000)],
        [("producer_byte_rate", 1e6)],
    )
]
print(sum(answer.error_code == 0 for answer in answers), "of", len(answers), "applied")
connection.close()
