"""Messages about drift and recovery to people and their tools: one file per form of message.

notifier = Notifier([Post(Shape.WEBHOOK, endpoint("hook", url, key=key), clock=clock, random=random)], state=state)
delivery = await notifier.notify(drift_of("prod", cluster_id, one_pass.sightings), now=clock.now())
"""

from reconciler.notify.endpoint import Endpoint, endpoint
from reconciler.notify.message import (
    ClusterDrift,
    DriftedPair,
    DriftEvent,
    Message,
    document,
    drift_of,
)
from reconciler.notify.notification_state import (
    NotificationState,
    notification_state_text,
    read_notification_state,
)
from reconciler.notify.notifier import Delivery, Notifier, Receiver

__all__ = [
    "ClusterDrift",
    "Delivery",
    "DriftEvent",
    "DriftedPair",
    "Endpoint",
    "Message",
    "NotificationState",
    "Notifier",
    "Receiver",
    "document",
    "drift_of",
    "endpoint",
    "notification_state_text",
    "read_notification_state",
]
