"""Notifications about drift and recovery.

receiver = HttpReceiver(MessageShape.WEBHOOK, endpoint("hook", url, key=key), clock=clock, random=random)
delivery = await Notifier([receiver], state=state).notify(drift_of("prod", cluster_id, observations), now=clock.now())
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
