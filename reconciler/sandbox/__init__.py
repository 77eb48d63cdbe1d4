"""An embedded broker for quotas: Kafka's rules and error messages without a Kafka, over TCP or offline.

``Sandbox`` serves tests and the command line, ``validate`` plans offline. The rules are pure (``broker_rules``); only
``server``, ``connection`` and ``state_file`` do I/O.
"""

from reconciler.sandbox.authorizer import OPEN, READER, RECONCILER, Authorizer, Operation
from reconciler.sandbox.broker_rules.offline_validation import validate
from reconciler.sandbox.broker_rules.profiles import NEWEST, PROFILES, BrokerProfile, profile_named
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
