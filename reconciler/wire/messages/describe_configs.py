"""DescribeConfigs (key 32), versions 1 to 4: settings of brokers and topics.

Version 3 adds types and documentation; version 4 is flexible. Quotas are not a configuration resource:
this client only checks whether a broker replaces Kafka's quota rules (``client.quota.callback.class``).
"""

from typing import Final

from msgspec import Struct

from reconciler.errors import EncodeError
from reconciler.wire.apis import DESCRIBE_CONFIGS

TOPIC: Final = 2
BROKER: Final = 4
"""Codes of ``ConfigResource.Type``; a broker's resource name is its id as text."""

UNKNOWN_SOURCE: Final = -1


class ConfigResource(Struct, frozen=True):
    """One resource; ``keys`` None requests all of its settings."""

    resource_type: int
    name: str
    keys: tuple[str, ...] | None = None


class DescribeConfigsRequest(Struct, frozen=True):
    """Resources, and whether to include synonyms and (version 3 and later) documentation."""

    resources: tuple[ConfigResource, ...]
    include_synonyms: bool = False
    include_documentation: bool = False


class ConfigSynonym(Struct, frozen=True):
    """Another source of a setting, with its value there."""

    name: str
    value: str | None
    source: int


class ConfigEntry(Struct, frozen=True):
    """One setting; ``value`` is None if it is sensitive or unset."""

    name: str
    value: str | None
    read_only: bool = False
    # Where the value comes from (`DescribeConfigsResponse.ConfigSource`).
    source: int = UNKNOWN_SOURCE
    is_sensitive: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    config_type: int = 0  # `DescribeConfigsResponse.ConfigType`; 0, unknown, below version 3
    documentation: str | None = None


class ConfigsResult(Struct, frozen=True):
    """The settings of one resource, or the error."""

    resource_type: int
    name: str
    error_code: int = 0
    error_message: str | None = None
    settings: tuple[ConfigEntry, ...] = ()


class DescribeConfigsResponse(Struct, frozen=True):
    """One result per resource; there is no error code for the whole request."""

    throttle_time_ms: int = 0
    results: tuple[ConfigsResult, ...] = ()


def encode_request(version: int, request: DescribeConfigsRequest) -> bytes:
    """Encode the body of a request.

    Raises:
        EncodeError: Documentation is requested below version 3.
    """
    if version < 3 and request.include_documentation:
        raise EncodeError(f"DescribeConfigs v{version} cannot ask for documentation")
    writer = DESCRIBE_CONFIGS.writer(version)

    def write_resource(resource: ConfigResource) -> None:
        writer.int8(resource.resource_type)
        writer.string(resource.name)
        writer.nullable_array(resource.keys, writer.string)

    writer.structures(request.resources, write_resource)
    writer.boolean(request.include_synonyms)
    if version >= 3:
        writer.boolean(request.include_documentation)
    return writer.complete()


def decode_request(version: int, body: bytes) -> DescribeConfigsRequest:
    """Decode a request body."""
    reader = DESCRIBE_CONFIGS.request_reader(version, body)

    def read_resource() -> ConfigResource:
        return ConfigResource(
            resource_type=reader.int8(),
            name=reader.string(),
            keys=reader.nullable_array(reader.string, least_size=1),
        )

    return reader.complete(
        DescribeConfigsRequest(
            resources=reader.structures(read_resource, least_size=4),
            include_synonyms=reader.boolean(),
            include_documentation=reader.boolean() if version >= 3 else False,
        )
    )


def encode_response(version: int, response: DescribeConfigsResponse) -> bytes:
    """Encode the body of a response; fields that an old version lacks are omitted, as in Kafka."""
    writer = DESCRIBE_CONFIGS.writer(version)

    def write_synonym(synonym: ConfigSynonym) -> None:
        writer.string(synonym.name)
        writer.nullable_string(synonym.value)
        writer.int8(synonym.source)

    def write_setting(setting: ConfigEntry) -> None:
        writer.string(setting.name)
        writer.nullable_string(setting.value)
        writer.boolean(setting.read_only)
        writer.int8(setting.source)
        writer.boolean(setting.is_sensitive)
        writer.structures(setting.synonyms, write_synonym)
        if version >= 3:
            writer.int8(setting.config_type)
            writer.nullable_string(setting.documentation)

    def write_result(result: ConfigsResult) -> None:
        writer.int16(result.error_code)
        writer.nullable_string(result.error_message)
        writer.int8(result.resource_type)
        writer.string(result.name)
        writer.structures(result.settings, write_setting)

    writer.int32(response.throttle_time_ms)
    writer.structures(response.results, write_result)
    return writer.complete()


def decode_response(version: int, body: bytes) -> DescribeConfigsResponse:
    """Decode a response body."""
    reader = DESCRIBE_CONFIGS.answer_reader(version, body)

    def read_setting() -> ConfigEntry:
        return ConfigEntry(
            name=reader.string(),
            value=reader.nullable_string(),
            read_only=reader.boolean(),
            source=reader.int8(),
            is_sensitive=reader.boolean(),
            synonyms=reader.structures(
                lambda: ConfigSynonym(
                    name=reader.string(), value=reader.nullable_string(), source=reader.int8()
                ),
                least_size=4,
            ),
            config_type=reader.int8() if version >= 3 else 0,
            documentation=reader.nullable_string() if version >= 3 else None,
        )

    def read_result() -> ConfigsResult:
        return ConfigsResult(
            error_code=reader.int16(),
            error_message=reader.nullable_string(),
            resource_type=reader.int8(),
            name=reader.string(),
            settings=reader.structures(read_setting, least_size=7),
        )

    return reader.complete(
        DescribeConfigsResponse(
            throttle_time_ms=reader.int32(), results=reader.structures(read_result, least_size=7)
        )
    )
