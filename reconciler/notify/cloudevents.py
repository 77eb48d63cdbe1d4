"""CloudEvents 1.0 in structured mode: the webhook's JSON in the envelope that event brokers route by."""

from typing import Final
from urllib.parse import quote

from reconciler.notify.endpoint import Endpoint, WebhookRequest
from reconciler.notify.message import Message, document
from reconciler.notify.signature import HEADER, signature
from reconciler.render.json_values import Json, dump
from reconciler.render.units import instant

TYPE: Final = "io.kafka-quotas.drift.{event}.v1"
SOURCE: Final = "/kafka-quotas/clusters/{cluster}"


def request(message: Message, to: Endpoint, *, at: float) -> WebhookRequest:
    """Return the POST. ``id`` is the same at every attempt, so that a receiver can detect duplicates."""
    envelope: dict[str, Json] = {
        "specversion": "1.0",
        "id": message.identity,
        "source": SOURCE.format(cluster=quote(message.drift.cluster, safe="")),
        "type": TYPE.format(event=message.event.value),
        "time": instant(message.at),
        "datacontenttype": "application/json",
        "data": document(message),
    }
    if message.drift.cluster_id:  # a subject may be absent, but never empty
        envelope["subject"] = message.drift.cluster_id
    body = dump(envelope).encode()
    headers = {"Content-Type": "application/cloudevents+json; charset=utf-8"}
    if to.key is not None:
        headers[HEADER] = signature(body, to.key, at=at)
    return WebhookRequest(body=body, headers=headers)
