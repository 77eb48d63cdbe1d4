"""Metadata (key 3), versions 0 to 13: brokers, cluster id, and topics on request.

This client requests no topics and uses version 9 and later. Older versions and topics are supported because
other tools connect to the sandbox. Version 0 cannot request no topics: an empty list
means all topics there, and null means all from version 1 on.
"""

from typing import Final, NamedTuple

from msgspec import Struct

from reconciler.errors import EncodeError
from reconciler.wire.apis import METADATA
from reconciler.wire.primitives import WireReader, WireWriter

OPERATIONS_NOT_ASKED: Final = -(2**31)
NO_TOPIC_ID: Final = bytes(16)
NO_CONTROLLER: Final = -1


class RequestTopic(Struct, frozen=True):
    """A topic by name, or by id with the name None (version 12 and later)."""

    name: str | None
    topic_id: bytes = NO_TOPIC_ID


class MetadataRequest(Struct, frozen=True):
    """The options of a request; ``topics`` None means all, () none (and in version 0 all)."""

    topics: tuple[RequestTopic, ...] | None = ()
    allow_auto_topic_creation: bool = False
    include_cluster_operations: bool = False
    include_topic_operations: bool = False


class MetadataBroker(Struct, frozen=True):
    """One live broker and its advertised address."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class Partition(Struct, frozen=True, kw_only=True):
    """One partition of a topic."""

    index: int
    leader_id: int
    error_code: int = 0
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()


class Topic(NamedTuple):
    """One topic, or its error."""

    name: str | None
    error_code: int = 0
    topic_id: bytes = NO_TOPIC_ID
    is_internal: bool = False
    partitions: tuple[Partition, ...] = ()
    operations: int = OPERATIONS_NOT_ASKED


class MetadataResponse(NamedTuple):
    """The cluster as one broker describes it; on KRaft ``controller_id`` is a random live broker."""

    throttle_time_ms: int = 0
    brokers: tuple[MetadataBroker, ...] = ()
    cluster_id: str | None = None
    controller_id: int = NO_CONTROLLER
    topics: tuple[Topic, ...] = ()
    operations: int = OPERATIONS_NOT_ASKED
    error_code: int = 0


def encode_request(version: int, request: MetadataRequest) -> bytes:
    """Encode the body of a request.

    Raises:
        EncodeError: ``version`` does not support an option.
    """
    _check_request(version, request)
    writer = METADATA.writer(version)

    def write_topic(topic: RequestTopic) -> None:
        if version >= 10:
            writer.uuid(topic.topic_id)
            writer.nullable_string(topic.name)
        elif topic.name is None:
            raise EncodeError(f"Metadata v{version} cannot ask for a topic by its id")
        else:
            writer.string(topic.name)

    writer.nullable_structures(request.topics, write_topic)
    if version >= 4:
        writer.boolean(request.allow_auto_topic_creation)
    if 8 <= version <= 10:
        writer.boolean(request.include_cluster_operations)
    if version >= 8:
        writer.boolean(request.include_topic_operations)
    return writer.complete()


def _check_request(version: int, request: MetadataRequest) -> None:
    if version < 1 and not request.topics:
        raise EncodeError("Metadata v0 cannot ask for no topics, and asks for all by an empty list")
    if version < 4 and not request.allow_auto_topic_creation:
        raise EncodeError(f"Metadata v{version} cannot forbid the creation of topics")
    if not 8 <= version <= 10 and request.include_cluster_operations:
        raise EncodeError(f"Metadata v{version} cannot ask for operations on the cluster")
    if version < 8 and request.include_topic_operations:
        raise EncodeError(f"Metadata v{version} cannot ask for operations on topics")


def decode_request(version: int, body: bytes) -> MetadataRequest:
    """Decode a request body; the empty list of version 0 becomes None, because it means all topics."""
    reader = METADATA.request_reader(version, body)

    def read_topic() -> RequestTopic:
        topic_id = reader.uuid() if version >= 10 else NO_TOPIC_ID
        name = reader.nullable_string() if version >= 10 else reader.string()
        return RequestTopic(name=name, topic_id=topic_id)

    if version >= 1:
        topics = reader.nullable_structures(read_topic, least_size=2)
    else:
        topics = reader.structures(read_topic, least_size=2) or None
    return reader.complete(
        MetadataRequest(
            topics=topics,
            allow_auto_topic_creation=reader.boolean() if version >= 4 else True,
            include_cluster_operations=reader.boolean() if 8 <= version <= 10 else False,
            include_topic_operations=reader.boolean() if version >= 8 else False,
        )
    )


def encode_response(version: int, response: MetadataResponse) -> bytes:
    """Encode the body of a response; fields that an old version lacks are omitted, as in Kafka."""
    writer = METADATA.writer(version)

    def write_broker(broker: MetadataBroker) -> None:
        writer.int32(broker.node_id)
        writer.string(broker.host)
        writer.int32(broker.port)
        if version >= 1:
            writer.nullable_string(broker.rack)

    if version >= 3:
        writer.int32(response.throttle_time_ms)
    writer.structures(response.brokers, write_broker)
    if version >= 2:
        writer.nullable_string(response.cluster_id)
    if version >= 1:
        writer.int32(response.controller_id)
    writer.structures(response.topics, lambda topic: _write_topic(writer, version, topic))
    if 8 <= version <= 10:
        writer.int32(response.operations)
    if version >= 13:
        writer.int16(response.error_code)
    return writer.complete()


def _write_topic(writer: WireWriter, version: int, topic: Topic) -> None:
    def write_partition(partition: Partition) -> None:
        writer.int16(partition.error_code)
        writer.int32(partition.index)
        writer.int32(partition.leader_id)
        if version >= 7:
            writer.int32(partition.leader_epoch)
        writer.array(partition.replicas, writer.int32)
        writer.array(partition.in_sync, writer.int32)
        if version >= 5:
            writer.array(partition.offline, writer.int32)

    if topic.name is None and version < 12:
        raise EncodeError(f"Metadata v{version} cannot show a topic without a name")
    writer.int16(topic.error_code)
    writer.nullable_string(topic.name)
    if version >= 10:
        writer.uuid(topic.topic_id)
    if version >= 1:
        writer.boolean(topic.is_internal)
    writer.structures(topic.partitions, write_partition)
    if version >= 8:
        writer.int32(topic.operations)


def decode_response(version: int, body: bytes) -> MetadataResponse:
    """Decode a response body."""
    reader = METADATA.answer_reader(version, body)

    def read_broker() -> MetadataBroker:
        return MetadataBroker(
            node_id=reader.int32(),
            host=reader.string(),
            port=reader.int32(),
            rack=reader.nullable_string() if version >= 1 else None,
        )

    return reader.complete(
        MetadataResponse(
            throttle_time_ms=reader.int32() if version >= 3 else 0,
            brokers=reader.structures(read_broker, least_size=10),
            cluster_id=reader.nullable_string() if version >= 2 else None,
            controller_id=reader.int32() if version >= 1 else NO_CONTROLLER,
            topics=reader.structures(lambda: _read_topic(reader, version), least_size=5),
            operations=reader.int32() if 8 <= version <= 10 else OPERATIONS_NOT_ASKED,
            error_code=reader.int16() if version >= 13 else 0,
        )
    )


def _read_topic(reader: WireReader, version: int) -> Topic:
    def read_partition() -> Partition:
        return Partition(
            error_code=reader.int16(),
            index=reader.int32(),
            leader_id=reader.int32(),
            leader_epoch=reader.int32() if version >= 7 else -1,
            replicas=reader.array(reader.int32, least_size=4),
            in_sync=reader.array(reader.int32, least_size=4),
            offline=reader.array(reader.int32, least_size=4) if version >= 5 else (),
        )

    return Topic(
        error_code=reader.int16(),
        name=reader.nullable_string() if version >= 12 else reader.string(),
        topic_id=reader.uuid() if version >= 10 else NO_TOPIC_ID,
        is_internal=reader.boolean() if version >= 1 else False,
        partitions=reader.structures(read_partition, least_size=13),
        operations=reader.int32() if version >= 8 else OPERATIONS_NOT_ASKED,
    )
