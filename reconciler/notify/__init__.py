"""Messages about drift and recovery to people and their tools: one file per form of message.

notifier = Notifier([Post(Shape.WEBHOOK, endpoint("hook", url, key=key), clock=clock, random=random)], told=told)
delivery = await notifier.look(drift_of("prod", cluster_id, one_pass.sightings), now=clock.now())
"""

from reconciler.notify.endpoint import Endpoint, endpoint
from reconciler.notify.memory import Told, read_told, told_text
from reconciler.notify.message import Drift, Drifted, Event, Message, document, drift_of
from reconciler.notify.notifier import Delivery, Notifier, Receiver

__all__ = [
    "Delivery",
    "Drift",
    "Drifted",
    "Endpoint",
    "Event",
    "Message",
    "Notifier",
    "Receiver",
    "Told",
    "document",
    "drift_of",
    "endpoint",
    "read_told",
    "told_text",
]
