"""The generic webhook: kquota's JSON, signed."""

from reconciler.notify.endpoint import Endpoint, WebhookRequest
from reconciler.notify.message import Message, document
from reconciler.notify.signature import HEADER, signature
from reconciler.render.json_values import dump


def request(message: Message, to: Endpoint, *, at: float) -> WebhookRequest:
    """Return the POST.

    ``to``: the address; its key signs.
    ``at``: time of sending, in seconds since the epoch.
    """
    body = dump(document(message)).encode()
    headers = {
        "Content-Type": "application/json",
        "X-Kquota-Event": f"drift.{message.event.value}",
        "X-Kquota-Delivery": message.identity,
    }
    if to.key is not None:
        headers[HEADER] = signature(body, to.key, at=at)
    return WebhookRequest(body=body, headers=headers)
