"""The schema of ``spec.simulate`` of a QuotaProject: the what-if policy and its tiers. Data only."""

from typing import Any, Final

from reconciler.manifest.quantity import MANIFEST_PATTERN
from reconciler.quota.keys import RULES
from reconciler.quota.patterns import EntityForm

DURATION: Final = r"^([0-9]{1,6}(ms|s|m|h))+$"


def _duration(words: str) -> dict[str, Any]:
    return {"description": words, "type": "string", "pattern": DURATION, "maxLength": 32}


def _percent(words: str, *, least: int = 0, maximum: int = 1000) -> dict[str, Any]:
    return {"description": words, "type": "integer", "minimum": least, "maximum": maximum}


def side(words: str, *, is_integer: bool) -> dict[str, Any]:
    """Return the schema of one side of a bound: a whole number or a quantity, or a decimal."""
    if is_integer:
        return {
            "description": words,
            "x-kubernetes-int-or-string": True,
            "pattern": MANIFEST_PATTERN,
            "maxLength": 64,
        }
    return {"description": words, "type": "number", "minimum": 0}


def bounds(words: str) -> dict[str, Any]:
    """Return the schema of smallest and largest values of every limit."""
    return {
        "description": words,
        "type": "object",
        "minProperties": 1,
        "properties": {
            rule.field: {
                "description": f"Bounds of {rule.field}.",
                "type": "object",
                "minProperties": 1,
                "properties": {
                    "min": side("Smallest value allowed.", is_integer=rule.is_integer),
                    "max": side("Largest value allowed.", is_integer=rule.is_integer),
                },
            }
            for rule in RULES.values()
        },
    }


def _name(words: str) -> dict[str, Any]:
    text = {"type": "string", "minLength": 1, "maxLength": 32_767}
    return {
        "description": words,
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "properties": {
            "exact": {"description": "Exactly this name.", **text},
            "prefix": {"description": "Every name that begins so.", **text},
        },
    }


_ENTITIES: Final[dict[str, Any]] = {
    "description": "Who belongs to the tier, as in a QuotaCluster's scope. Of several tiers that match, the first counts.",
    "type": "array",
    "maxItems": 64,
    "items": {
        "description": "One pattern of entities.",
        "type": "object",
        "minProperties": 1,
        "properties": {
            "forms": {
                "description": "Only these forms of entity.",
                "type": "array",
                "minItems": 1,
                "maxItems": 10,
                "x-kubernetes-list-type": "set",
                "items": {
                    "description": "A form of entity.",
                    "type": "string",
                    "enum": [str(form) for form in EntityForm],
                },
            },
            "user": _name("The user slot is named so."),
            "clientId": _name("The client-id slot is named so."),
            "ip": _name("The ip slot has this name; it cannot be combined with others."),
        },
    },
}

_FAIL_ON: Final[dict[str, Any]] = {
    "newThrottledPerDay": _duration("More newly throttled time per client and day than this."),
    "maxDelay": _duration("A longer delay of one request than this."),
}

_SHARE: Final[dict[str, Any]] = {"minimum": 0, "maximum": 1}

_TIER: Final[dict[str, Any]] = {
    "description": "A share of the time, 0 to 1, or all of its rules.",
    "type": ["number", "object"],
    **_SHARE,
    "properties": {
        "share": {
            "description": "Share of the time that its clients may be throttled. Also what a change may add per day, "
            "unless newThrottledPerDay says otherwise.",
            "type": "number",
            **_SHARE,
        },
        "newThrottledPerDay": _duration("Instead of failOn.newThrottledPerDay."),
        "maxDelay": _duration("Instead of failOn.maxDelay; sizing keeps to it, too."),
        "entities": _ENTITIES,
        "marginPercent": _percent("Sizing: added to what is needed; 15 if unset."),
        "bumpPercent": _percent(
            "Sizing: added where demand was higher than recorded; 20 if unset, 0 for batch."
        ),
        "ignorePercent": _percent("Sizing: a smaller change is not worth one; 10 if unset."),
        "cutPercent": _percent("Sizing: largest cut at once; 50 if unset.", least=1, maximum=100),
        "bounds": bounds("Sizing: smallest and largest limits."),
    },
}

_CONNECTIONS: Final[dict[str, Any]] = {
    "description": "How many of them share one limit on one broker. If unset, forecasts are intervals.",
    "type": "integer",
    "minimum": 1,
    "maximum": 64,
}

_CONSUMER: Final[dict[str, Any]] = {
    "description": "The configuration of some consumers.",
    "type": "object",
    "minProperties": 1,
    "properties": {
        "entities": _ENTITIES
        | {"description": "Which consumers, as in a QuotaCluster's scope; all if unset."},
        "maxPartitionFetchBytes": side(
            "Their max.partition.fetch.bytes; 1Mi if unset.", is_integer=True
        ),
        "fetchMaxBytes": side("Their fetch.max.bytes; 50Mi if unset.", is_integer=True),
        "partitions": {
            "description": "How many partitions with waiting records one consumer reads from one broker. If unset, "
            "forecasts are intervals from one partition to fetchMaxBytes.",
            "type": "integer",
            "minimum": 1,
            "maximum": 100_000,
        },
        "batchBytes": side(
            "Bytes of a record batch as producers send it, with its header of 61 bytes. A fetch that ends within a batch "
            "reads it again, and a fetch of one small batch counts more than the batch.",
            is_integer=True,
        ),
        "connections": _CONNECTIONS,
    },
}

_PRODUCER: Final[dict[str, Any]] = {
    "description": "The configuration of some producers.",
    "type": "object",
    "minProperties": 1,
    "properties": {
        "entities": _ENTITIES
        | {"description": "Which producers, as in a QuotaCluster's scope; all if unset."},
        "recordBytes": side(
            "Bytes of a record: key, value and headers. Requests of small records have as many bytes beside them, "
            "which vanish when a producer waits.",
            is_integer=True,
        ),
        "linger": _duration("Their linger.ms; 0 to 5 ms, the defaults of Kafka, if unset."),
        "batchBytes": side("Their batch.size; 16Ki if unset.", is_integer=True),
        "connections": _CONNECTIONS,
    },
}

SIMULATE: Final[dict[str, Any]] = {
    "description": "The what-if policy: when a simulation against recorded usage fails.",
    "type": "object",
    "properties": {
        "failOn": {
            "description": "Any of these fails the check.",
            "type": "object",
            "minProperties": 1,
            "properties": _FAIL_ON,
        },
        "tiers": {
            "description": "Groups of clients by name. gold (0.1 %, 60s), silver (0.5 %, 10m) and batch (1 %) exist; "
            "naming one here changes it. A document joins one by the label kafka-quotas.io/tier, unless entities of a "
            "tier name it.",
            "type": "object",
            "maxProperties": 64,
            "additionalProperties": _TIER,
        },
        "usualTier": {
            "description": "The tier of clients that belong to none; silver if unset.",
            "type": "string",
            "minLength": 1,
            "maxLength": 63,
        },
        "elastic": {
            "description": "What is done about consumers, which use what they are let: Report (default) shows them and "
            "never fails on them, Ignore only counts them.",
            "type": "string",
            "enum": ["Report", "Ignore"],
        },
        "consumers": {
            "description": "How consumers fetch. Forecasts are intervals unless all is known. "
            "Of several entries that match, the first counts.",
            "type": "array",
            "maxItems": 64,
            "items": _CONSUMER,
        },
        "producers": {
            "description": "How producers send. Forecasts are intervals unless all is known. "
            "Of several entries that match, the first counts.",
            "type": "array",
            "maxItems": 64,
            "items": _PRODUCER,
        },
    },
}
"""``spec.simulate``."""
