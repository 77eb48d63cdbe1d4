"""The static rules of QuotaCluster and QuotaProject that a JSON Schema cannot express, in CEL and in Python."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from reconciler.manifest import quantity
from reconciler.manifest.rules.client_quota import (
    IS_QUANTITY,
    UNTIL_CEL,
    UNTIL_MESSAGE,
    Broken,
    Json,
    RuleScope,
    StaticRule,
    exactly_one_field,
    rate_rule,
    time_broken,
)
from reconciler.manifest.schema_names import CLUSTER, PROJECT
from reconciler.quota.keys import RULES
from reconciler.quota.patterns import FORMS, EntityForm


def _bound_broken(bound: Json) -> str | None:
    def side(name: str) -> Json:
        value = bound[name]
        return quantity.parse(value) if isinstance(value, str) else value

    if "min" not in bound or "max" not in bound or side("min") <= side("max"):
        return None
    return f"min {bound['min']} is above max {bound['max']}"


def _confirm_broken(spec: Json) -> str | None:
    confirmed, expected = spec.get("confirmSync"), spec.get("expectedClusterId")
    if None in (confirmed, expected) or confirmed == expected:
        return None
    return f"confirmSync {confirmed!r} is not the expectedClusterId {expected!r}"


def _names_broken(budgets: Json) -> str | None:
    """Check that no two budgets have one name; the API server checks it by the kind of the list."""
    names = Counter(budget["name"] for budget in budgets)
    name, amount = names.most_common(1)[0] if names else ("", 1)
    return None if amount == 1 else f"{amount} budgets have the name {name!r}"


def _pattern_empty(pattern: Json) -> str | None:
    if any(part in pattern for part in ("forms", "user", "clientId", "ip")):
        return None
    return "at least one of forms, user, clientId and ip is needed"


def _pattern_ip(pattern: Json) -> str | None:
    if "ip" not in pattern or not ("user" in pattern or "clientId" in pattern):
        return None
    return "ip cannot be combined with user or clientId"


def _grant_open(slot: str, forms: tuple[EntityForm, ...]) -> Broken:
    """Return the rule that a grant has a pattern for each named slot of its forms: without one it would grant all names."""

    def broken(pattern: Json) -> str | None:
        open_forms = [form for form in pattern.get("forms", ()) if form in forms]
        if not open_forms or slot in pattern:
            return None
        return (
            f"form {open_forms[0]} has a named {slot};"
            f' add a {slot} pattern, or {slot}: {{prefix: ""}} for any'
        )

    return broken


_NAMED: Final[Mapping[str, tuple[EntityForm, ...]]] = {
    slot: tuple(form for kinds, form in FORMS.items() if kinds[column] == "named")
    for column, slot in enumerate(("user", "clientId", "ip"))
}
"""The forms with a name in a slot."""

_PATTERNS: Final = (
    ("scope", "*"),
    ("ignore", "*"),
    ("tenants", "*", "entities", "*"),
    ("guards", "protected", "*"),
    ("budgets", "*", "entities", "*"),
    ("guards", "bounds", "*"),
)


def _field_name(at: tuple[str, ...]) -> str:
    return at[1] if at[1] == "protected" else at[0]


_BOUNDS: Final = (
    (CLUSTER, ("guards", "bounds", "*", "limits")),
    (CLUSTER, ("tenants", "*", "bounds")),
    (PROJECT, ("limits",)),
)

CLUSTER_RULES: Final[tuple[StaticRule, ...]] = (
    RuleScope(CLUSTER, ()).rule(
        "confirm-sync",
        "!has(self.confirmSync) || !has(self.expectedClusterId) || self.confirmSync == self.expectedClusterId",
        "confirmSync is not the expectedClusterId",
        _confirm_broken,
    ),
    *(
        RuleScope(CLUSTER, at).rule(
            f"{at[-3]}-until",
            UNTIL_CEL,
            UNTIL_MESSAGE,
            time_broken,
        )
        for at in (("ignore", "*", "until"), ("guards", "approvedRemovals", "*", "until"))
    ),
    *(
        RuleScope(CLUSTER, at).rule(
            f"{_field_name(at)}-pattern",
            "has(self.forms) || has(self.user) || has(self.clientId) || has(self.ip)",
            "at least one of forms, user, clientId and ip is needed",
            _pattern_empty,
        )
        for at in _PATTERNS[:-1]
    ),
    *(
        rule
        for at in _PATTERNS
        for rule in (
            RuleScope(CLUSTER, at).rule(
                f"{_field_name(at)}-ip-alone",
                "!has(self.ip) || (!has(self.user) && !has(self.clientId))",
                "ip cannot be combined with user or clientId",
                _pattern_ip,
            ),
            *(
                RuleScope(CLUSTER, (*at, slot)).rule(
                    f"{_field_name(at)}-{slot}-match",
                    "has(self.exact) != has(self.prefix)",
                    "exactly one of exact and prefix is needed",
                    exactly_one_field("exact", "prefix"),
                )
                for slot in ("user", "clientId", "ip")
            ),
        )
    ),
    *(
        RuleScope(CLUSTER, ("tenants", "*", "entities", "*")).rule(
            f"tenants-{slot}-granted",
            f"has(self.{slot}) || !has(self.forms) || !self.forms.exists(f, f in [{', '.join(map(repr, map(str, forms)))}])",
            f"a form with a named {slot} needs a {slot} pattern",
            _grant_open(slot, forms),
        )
        for slot, forms in _NAMED.items()
    ),
    *(
        RuleScope(kind, (*at, rule.field)).rule(
            f"{at[0]}-bound-{rule.field}",
            "!has(self.min) || !has(self.max) || "
            + (
                "!isQuantity(string(self.min)) || !isQuantity(string(self.max)) || "
                "quantity(string(self.min)).compareTo(quantity(string(self.max))) <= 0"
                if rule.is_integer
                else "self.min <= self.max"
            ),
            "min is above max",
            _bound_broken,
        )
        for kind, at in _BOUNDS
        for rule in RULES.values()
    ),
    *(
        RuleScope(CLUSTER, at).rule(
            f"{at[0]}-quantity-{'-'.join(at[-2:])}",
            f"type(self) == int || {IS_QUANTITY}",
            "must be a whole number or a quantity such as 10Mi",
            None,
        )
        for at in (
            *(
                (*bounds, rule.field, side)
                for kind, bounds in _BOUNDS
                if kind == CLUSTER
                for rule in RULES.values()
                if rule.is_integer
                for side in ("min", "max")
            ),
            ("brokerCapacity", "ingress"),
            ("brokerCapacity", "egress"),
        )
    ),
    *(
        rate_rule(CLUSTER, ("budgets", "*", "limits"), f"budgets-{rule.field}", key)
        for key, rule in RULES.items()
    ),
    RuleScope(CLUSTER, ("budgets",)).rule("budgets-names", "", "", _names_broken),
)
"""Every rule of a QuotaCluster, in the order of the fields, and those of a QuotaProject (no CEL evaluates it)."""
