"""An embedded broker for quotas: Kafka's rules and error messages without a Kafka, over TCP or offline.

``Sandbox`` serves tests and the command line, ``validate`` plans offline. The rules are pure (``broker_rules``); only
``server`` and ``connection`` do I/O.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from reconciler.sandbox.broker_rules.offline_validation import validate
from reconciler.sandbox.broker_rules.profiles import NEWEST, PROFILES, BrokerProfile, profile_named

if TYPE_CHECKING:
    from reconciler.sandbox.authorizer import OPEN, READER, RECONCILER, Authorizer, Operation
    from reconciler.sandbox.faults import Fault
    from reconciler.sandbox.server import Sandbox
    from reconciler.sandbox.settings import Listener, ListenerProtocol, SandboxSettings

__all__ = [
    "NEWEST",
    "OPEN",
    "PROFILES",
    "READER",
    "RECONCILER",
    "Authorizer",
    "BrokerProfile",
    "Fault",
    "Listener",
    "ListenerProtocol",
    "Operation",
    "Sandbox",
    "SandboxSettings",
    "profile_named",
    "validate",
]

_PARTS_OF_SERVER: Final = {
    "authorizer": ("OPEN", "READER", "RECONCILER", "Authorizer", "Operation"),
    "faults": ("Fault",),
    "server": ("Sandbox",),
    "settings": ("Listener", "ListenerProtocol", "SandboxSettings"),
}
"""Names by their module, which is imported when one is used: an offline plan needs the rules alone."""


def __getattr__(name: str) -> object:
    for module, names in _PARTS_OF_SERVER.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
