"""A Kafka broker's checks of a filter, in its order and with its messages, and the matching entities. Pure.

Source: ``ClientQuotasImage.describe`` (identical from 3.4 to 4.4): components are checked one after the other, each
for its type, then its match; the combination comes last.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from reconciler.quota.entity import ENTITY_TYPES
from reconciler.sandbox.broker_rules.alterations import BrokerFailure
from reconciler.sandbox.broker_rules.image import Image, Names
from reconciler.wire.error_codes import INVALID_REQUEST, UNSUPPORTED_VERSION
from reconciler.wire.messages.describe_client_quotas import ANY, DEFAULT, EXACT, Component, Entry

_COMBINATION: Final = (
    "Invalid entity filter component combination."
    " IP filter component should not be used with user or clientId filter component."
)

_Wrong = Callable[[str | None], str | None]
_MATCH_RULES: Final[dict[int, _Wrong]] = {
    EXACT: lambda match: (
        "Request specified MATCH_TYPE_EXACT, but set match string to null."
        if match is None
        else None
    ),
    DEFAULT: lambda match: (
        "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."
        if match is not None
        else None
    ),
    ANY: lambda match: (
        "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."
        if match is not None
        else None
    ),
}
"""The message for an invalid match string, by match type."""


def check(
    components: Sequence[Component], entity_types: Collection[str] = ENTITY_TYPES
) -> BrokerFailure | None:
    """Return why a broker with these entity types refuses the filter, or ``None``."""
    seen_types: set[str] = set()
    for component in components:
        failure = _component_failure(component, seen_types, entity_types)
        if failure is not None:
            return failure
        seen_types.add(component[0])
    if "ip" in seen_types and len(seen_types) > 1:
        return BrokerFailure(code=INVALID_REQUEST, message=_COMBINATION)
    return None


def matching(image: Image, components: Sequence[Component], *, strict: bool) -> list[Entry]:
    """Return entities of ``image`` that a valid filter selects, with their values, in the image's order.

    Components combine with *and*. Strict compares the number of types: it admits entities with exactly as many as the
    filter has, so an empty strict filter selects nothing.
    """
    return [
        (names, tuple(values.items()))
        for names, values in image.values.items()
        if (not strict or len(names) == len(components)) and _matches(names, components)
    ]


def _matches(names: Names, components: Sequence[Component]) -> bool:
    names_by_type = dict(names)
    return all(
        kind in names_by_type and (how == ANY or names_by_type[kind] == match)
        for kind, how, match in components
    )


def _component_failure(
    component: Component, seen_types: set[str], entity_types: Collection[str]
) -> BrokerFailure | None:
    kind, how, match = component
    if not kind:
        return BrokerFailure(code=INVALID_REQUEST, message="Invalid empty entity type.")
    if kind in seen_types:
        words = f"Entity type {kind} cannot appear more than once in the filter."
        return BrokerFailure(code=INVALID_REQUEST, message=words)
    if kind not in entity_types:
        return BrokerFailure(code=UNSUPPORTED_VERSION, message=f"Unsupported entity type {kind}")
    rule = _MATCH_RULES.get(how)
    wrong = f"Unknown match type {how}" if rule is None else rule(match)
    return None if wrong is None else BrokerFailure(code=INVALID_REQUEST, message=wrong)
