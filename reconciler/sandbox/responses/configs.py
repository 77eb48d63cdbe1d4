"""Responses to DescribeConfigs: the few broker settings that are relevant for quotas.

The sandbox has its own node's settings only, and no topics. Any other type of resource fails the whole request, as an
unknown type does on a broker.
"""

from typing import Final

from msgspec import Struct

from reconciler.sandbox.authorizer import Operation
from reconciler.sandbox.broker_rules.alterations import BrokerFailure
from reconciler.sandbox.request import CLUSTER_DENIED, SandboxRequest
from reconciler.wire.error_codes import CLUSTER_AUTHORIZATION_FAILED, INVALID_REQUEST
from reconciler.wire.messages import describe_configs as wire

STATIC: Final = 4
DEFAULT: Final = 5
"""``ConfigSource``: from the broker's file, or Kafka's default."""

_MALFORMED: Final = BrokerFailure(
    code=INVALID_REQUEST,
    message="This most likely occurs because of a request being malformed by the client library or"
    " the message was sent to an incompatible broker. See the broker logs for more details.",
)
_UNKNOWN_TOPIC: Final = BrokerFailure(code=3, message="")
_TOPIC_DENIED: Final = BrokerFailure(code=29, message="Topic authorization failed.")


class KnownSetting(Struct, frozen=True, kw_only=True):
    """A setting that the sandbox has: Kafka's default and the code of its ``ConfigType``."""

    default: str | None
    config_type: int


INT: Final = 3
CLASS: Final = 8
KNOWN: Final = {
    "client.quota.callback.class": KnownSetting(default=None, config_type=CLASS),
    "controller.quota.window.num": KnownSetting(default="11", config_type=INT),
    "controller.quota.window.size.seconds": KnownSetting(default="1", config_type=INT),
    "node.id": KnownSetting(default=None, config_type=INT),
    "quota.window.num": KnownSetting(default="11", config_type=INT),
    "quota.window.size.seconds": KnownSetting(default="1", config_type=INT),
}


def describe_configs_answer(call: SandboxRequest) -> bytes:
    """Return one result per resource, in the requested order."""
    request = wire.decode_request(call.version, call.body)
    failure = call.failure
    if any(
        resource.resource_type not in (wire.BROKER, wire.TOPIC) for resource in request.resources
    ):
        failure = failure or _MALFORMED
    response = wire.DescribeConfigsResponse(
        throttle_time_ms=call.throttle_ms,
        results=tuple(
            _result(call, resource, failure, synonyms=request.include_synonyms)
            for resource in request.resources
        ),
    )
    return wire.encode_response(call.version, response)


def _result(
    call: SandboxRequest,
    resource: wire.ConfigResource,
    failure: BrokerFailure | None,
    *,
    synonyms: bool,
) -> wire.ConfigsResult:
    failure = failure or _refusal(call, resource)
    if failure is not None:
        return wire.ConfigsResult(
            resource_type=resource.resource_type,
            name=resource.name,
            error_code=failure.code,
            error_message=failure.message,
        )
    names = [] if resource.name == "" else [n for n in KNOWN if n in (resource.keys or KNOWN)]
    return wire.ConfigsResult(
        resource_type=resource.resource_type,
        name=resource.name,
        error_message="",
        settings=tuple(_setting(call, name, synonyms=synonyms) for name in names),
    )


def _refusal(call: SandboxRequest, resource: wire.ConfigResource) -> BrokerFailure | None:
    """Check permissions first, then the name."""
    allowed = call.cluster.settings.authorizer.allows(call.principal, Operation.DESCRIBE_CONFIGS)
    if resource.resource_type == wire.TOPIC:
        return _UNKNOWN_TOPIC if allowed else _TOPIC_DENIED
    if not allowed:
        return BrokerFailure(code=CLUSTER_AUTHORIZATION_FAILED, message=CLUSTER_DENIED)
    if resource.name in ("", str(call.broker.node)):
        return None
    if not resource.name.removeprefix("-").isdecimal():
        words = f"Broker id must be an integer, but it is: {resource.name}"
    else:
        words = (
            f"Unexpected broker id, expected {call.broker.node} or empty string,"
            f" but received {resource.name}"
        )
    return BrokerFailure(code=INVALID_REQUEST, message=words)


def _setting(call: SandboxRequest, name: str, *, synonyms: bool) -> wire.ConfigEntry:
    known_setting = KNOWN[name]
    static = {"node.id": str(call.broker.node), **call.cluster.settings.broker_settings}.get(name)
    sources = [(static, STATIC), (known_setting.default, DEFAULT)]
    places = [(value, source) for value, source in sources if value is not None]
    value, source = places[0] if places else (None, DEFAULT)
    return wire.ConfigEntry(
        name=name,
        value=value,
        read_only=True,
        source=source,
        config_type=known_setting.config_type,
        synonyms=tuple(
            wire.ConfigSynonym(name=name, value=text, source=place)
            for text, place in places
            if synonyms
        ),
    )
