"""Messages about drift and recovery to people and their tools: one file per form of message.

notifier = Notifier([Post(Shape.WEBHOOK, endpoint("hook", url, key=key), clock=clock, random=random)], told=told)
delivery = await notifier.look(drift_of("prod", cluster_id, one_pass.sightings), now=clock.now())
"""

from reconciler.notify.endpoint import Endpoint, endpoint
from reconciler.notify.memory import NotificationState, read_notification_state, notification_state_text
from reconciler.notify.message import ClusterDrift, DriftedPair, DriftEvent, Message, document, drift_of
from reconciler.notify.notifier import Delivery, Notifier, Receiver

__all__ = [
    "Delivery",
    "ClusterDrift",
    "DriftedPair",
    "Endpoint",
    "DriftEvent",
    "Message",
    "Notifier",
    "Receiver",
    "NotificationState",
    "document",
    "drift_of",
    "endpoint",
    "read_notification_state",
    "notification_state_text",
]
