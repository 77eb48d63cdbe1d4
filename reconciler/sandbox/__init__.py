"""An embedded broker for quotas: Kafka's rules and words without a Kafka, over TCP or offline.

``Sandbox`` serves tests, ``serve`` the command line, ``validate`` a plan that wants to know what a broker would say.
Rules are pure (``rules``, ``filters``, ``image``); only ``server``, ``connection``, ``resolving``, ``state_file``
and ``serving`` touch the world.
"""

from reconciler.sandbox.authorizer import OPEN, READER, RECONCILER, Authorizer, Operation
from reconciler.sandbox.faults import Fault
from reconciler.sandbox.profiles import NEWEST, PROFILES, BrokerProfile, profile_named
from reconciler.sandbox.server import Sandbox
from reconciler.sandbox.serving import serve
from reconciler.sandbox.settings import Listener, ListenerProtocol, SandboxSettings
from reconciler.sandbox.verdicts import validate

__all__ = [
    "NEWEST",
    "OPEN",
    "PROFILES",
    "READER",
    "RECONCILER",
    "Authorizer",
    "Fault",
    "Listener",
    "Operation",
    "BrokerProfile",
    "ListenerProtocol",
    "Sandbox",
    "SandboxSettings",
    "profile_named",
    "serve",
    "validate",
]
