"""``spec.simulate`` of a project as values: tolerances for recorded use, and the tiers of the clients."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from reconciler.errors import QuotaValueError
from reconciler.manifest.project.cluster import bounds_of, pattern_of, seconds
from reconciler.manifest.quantity import whole_number
from reconciler.quota.entity import Entity
from reconciler.quota.patterns import EntityPattern
from reconciler.quota.planner.desired_state import Declaration
from reconciler.usage.clients import (
    CONNECTIONS,
    DEFAULT_BATCH_BYTES,
    DEFAULT_FETCH_BYTES,
    DEFAULT_LINGER_MS,
    DEFAULT_PARTITION_BYTES,
    RECORD_OVERHEAD,
    UNSTATED_CONSUMERS,
    UNSTATED_PRODUCERS,
    Clients,
    Span,
)
from reconciler.usage.impact.tier_policy import (
    LABEL,
    USUAL,
    ClientRule,
    ElasticHandling,
    StatedClients,
    TierRule,
    WhatIfPolicy,
    share_ms_per_day,
)
from reconciler.usage.impact.verdict import Tolerance
from reconciler.usage.recommendation.limit_sizes import SILVER, Tier
from reconciler.usage.samples import MILLION, TYPE_OF, QuotaType, half_up, limit_units

# A spec that its schema has accepted.
Spec: TypeAlias = Mapping[str, Any]

NOBODY: Final[Mapping[str, Iterable[Declaration]]] = MappingProxyType({})

_PERCENTS: Final = {
    "marginPercent": "margin_percent",
    "bumpPercent": "bump_percent",
    "ignorePercent": "ignore_percent",
    "cutPercent": "cut_percent",
}


def policy_of(
    simulate: Spec, declarations: Mapping[str, Iterable[Declaration]] = NOBODY
) -> WhatIfPolicy:
    """Return the what-if policy.

    Args:
        simulate: ``spec.simulate`` of the trusted configuration; empty = everything is reported, nothing refused.
        declarations: Documents by cluster id, for their labels.

    Raises:
        QuotaValueError: A pattern, a tier or the name of the usual tier is invalid.
    """
    everywhere = _tolerance(simulate.get("failOn", {}), Tolerance())
    rules: list[TierRule] = []
    tier_specs: Spec = simulate.get("tiers", {})
    for name, spec in tier_specs.items():
        rules.append(
            _rule(name, spec if isinstance(spec, Mapping) else {"share": spec}, everywhere)
        )
    rules += [replace(rule, tolerance=everywhere) for rule in USUAL if rule.name not in tier_specs]
    usual = simulate.get("usualTier", SILVER.name)
    usual_rules = [rule for rule in rules if rule.name == usual]
    if not usual_rules:
        raise QuotaValueError(
            f"usualTier: unknown tier {usual!r}; tiers are {', '.join(rule.name for rule in rules)}"
        )
    return WhatIfPolicy(
        rules=tuple(rules),
        usual=usual_rules[0],
        labelled={
            cluster_id: _tiers_by_entity(cluster_declarations)
            for cluster_id, cluster_declarations in declarations.items()
        },
        elastic=ElasticHandling(simulate.get("elastic", ElasticHandling.REPORT)),
        clients=StatedClients(
            rules=(
                *_stated(simulate, "consumers", _consumers),
                *_stated(simulate, "producers", _producers),
            )
        ),
    )


def _tiers_by_entity(declarations: Iterable[Declaration]) -> dict[Entity, str]:
    tiers_by_entity: dict[Entity, str] = {}
    for declaration in declarations:
        for name, value in declaration.labels:
            if name == LABEL:
                _ = tiers_by_entity.setdefault(declaration.entity, value)
    return tiers_by_entity


def _rule(name: str, spec: Spec, everywhere: Tolerance) -> TierRule:
    shared = everywhere
    if "share" in spec:
        daily = share_ms_per_day(_ppm(spec["share"]))
        shared = replace(everywhere, new_throttled_ms_per_day=daily)
    floors, ceilings = _bounds(spec.get("bounds", {}))
    try:
        return TierRule(
            name=name,
            tolerance=_tolerance(spec, shared),
            tier=_tier(name, spec),
            floors=floors,
            ceilings=ceilings,
            entities=tuple(map(_pattern, spec.get("entities", ()))),
        )
    except QuotaValueError as wrong:
        # The message of a tier already begins with its name.
        message = wrong.message.removeprefix(f"tier {name}: ")
        raise QuotaValueError(f"tiers.{name}: {message}") from wrong


def _stated(
    simulate: Spec, name: str, clients_of: Callable[[Spec], Clients]
) -> Iterator[ClientRule]:
    for n, spec in enumerate(simulate.get(name, ())):
        try:
            yield ClientRule(
                entities=tuple(map(_pattern, spec.get("entities", ()))), clients=clients_of(spec)
            )
        except QuotaValueError as wrong:
            raise QuotaValueError(f"{name}[{n}]: {wrong.message}") from wrong


def _consumers(spec: Spec) -> Clients:
    """Return what is known about some consumers. The number of partitions per fetch is known only if it is configured."""
    partitions: int | None = spec.get("partitions")
    partition = whole_number(spec.get("maxPartitionFetchBytes", DEFAULT_PARTITION_BYTES))
    at_most = whole_number(spec.get("fetchMaxBytes", DEFAULT_FETCH_BYTES))
    least = min(at_most, partition * (partitions or 1))
    return Clients(
        is_produce=False,
        connections=_span(spec, "connections", CONNECTIONS),
        most_bytes=Span(least, at_most if partitions is None else least),
        part_bytes=_span(spec, "batchBytes", UNSTATED_CONSUMERS.part_bytes),
    )


def _producers(spec: Spec) -> Clients:
    batch = whole_number(spec.get("batchBytes", DEFAULT_BATCH_BYTES))
    record = _span(spec, "recordBytes", UNSTATED_PRODUCERS.part_bytes)
    if "recordBytes" in spec:
        record = Span(record.least + RECORD_OVERHEAD, record.most + RECORD_OVERHEAD)
    linger = _ms(spec["linger"]) if "linger" in spec else None
    return Clients(
        is_produce=True,
        connections=_span(spec, "connections", CONNECTIONS),
        most_bytes=Span(batch, batch),
        part_bytes=record,
        linger_ms=DEFAULT_LINGER_MS if linger is None else Span(linger, linger),
    )


def _span(spec: Spec, name: str, otherwise: Span) -> Span:
    """Return a stated number as a span, or what is plausible."""
    if name not in spec:
        return otherwise
    stated = whole_number(spec[name])
    return Span(stated, stated)


def _tier(name: str, spec: Spec) -> Tier:
    """Return a tier: one with a known name starts with its known rules, others with those of silver and no delay."""
    default_tier = next((rule.tier for rule in USUAL if rule.name == name), None)
    tier = default_tier or replace(SILVER, name=name, max_delay_ms=None)
    if "share" in spec:
        tier = replace(tier, share_ppm=max(1, _ppm(spec["share"])))
    if "maxDelay" in spec:
        tier = replace(tier, max_delay_ms=_ms(spec["maxDelay"]))
    percents: dict[str, int] = {
        field: spec[word] for word, field in _PERCENTS.items() if word in spec
    }
    return replace(tier, **percents)  # type: ignore[arg-type] # every one of these fields is a whole number


def _tolerance(spec: Spec, otherwise: Tolerance) -> Tolerance:
    daily, delay = spec.get("newThrottledPerDay"), spec.get("maxDelay")
    return Tolerance(
        new_throttled_ms_per_day=otherwise.new_throttled_ms_per_day
        if daily is None
        else _ms(daily),
        max_delay_ms=otherwise.max_delay_ms if delay is None else _ms(delay),
    )


def _pattern(spec: Spec) -> EntityPattern:
    if "ip" in spec and ("user" in spec or "clientId" in spec):
        raise QuotaValueError("an ip pattern cannot be combined with user or clientId")
    return pattern_of(spec)


def _bounds(spec: Spec) -> tuple[dict[QuotaType, int], dict[QuotaType, int]]:
    floors: dict[QuotaType, int] = {}
    ceilings: dict[QuotaType, int] = {}
    for bound in bounds_of(spec):
        kind = TYPE_OF[bound.key]
        floor = limit_units(kind, bound.minimum) if bound.minimum else None
        ceiling = limit_units(kind, bound.maximum)
        if floor is not None:
            floors[kind] = floor
        if ceiling is not None:
            ceilings[kind] = ceiling
    return floors, ceilings


def _ppm(share: float) -> int:
    return half_up(share * MILLION)


def _ms(duration: str) -> int:
    return half_up(seconds(duration) * 1000)
