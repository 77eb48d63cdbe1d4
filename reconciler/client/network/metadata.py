"""The Metadata request of this client: the cluster id and its live brokers, no topics."""

from dataclasses import dataclass

from reconciler.client.network.requests import ClientRequest, ResponseStatus
from reconciler.errors import DecodeError
from reconciler.quota.cluster import Node
from reconciler.wire.apis import METADATA
from reconciler.wire.messages import metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """The cluster as one broker describes it; after a successful response the id is never ""."""

    cluster_id: str
    nodes: tuple[Node, ...]
    error_code: int


def _decode(version: int, body: bytes) -> ClusterMetadata:
    answer = metadata.decode_response(version, body)
    if answer.error_code == 0 and not (answer.cluster_id and answer.brokers):
        raise DecodeError("Metadata names no cluster id or no broker", api=METADATA.name)
    nodes = (
        Node(id=broker.node_id, host=broker.host, port=broker.port) for broker in answer.brokers
    )
    return ClusterMetadata(
        cluster_id=answer.cluster_id or "",
        nodes=tuple(sorted(nodes, key=lambda node: node.id)),
        error_code=answer.error_code,
    )


ASK = ClientRequest(
    api=METADATA,
    encode=lambda version: metadata.encode_request(version, metadata.MetadataRequest(topics=())),
    decode=_decode,
    verdict=lambda picture: ResponseStatus(code=picture.error_code),
    right="Describe",
)
