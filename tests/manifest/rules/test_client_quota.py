"""The table of static rules: its CEL is in the CRDs, its Python rules accept and refuse the same documents."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.manifest.explanation import broken
from reconciler.manifest.rules.client_quota import QUOTA_RULES, StaticRule, canonical_ip, seconds_of
from reconciler.manifest.rules.cluster import CLUSTER_RULES
from reconciler.quota.keys import RULES as KEY_RULES
from tests.manifest.samples import FORMS, cluster, quota, selecting
from tools.file_schemas import CRDS

ROOT = Path(__file__).parents[3]
RULES = {rule.id: rule for rule in (*QUOTA_RULES, *CLUSTER_RULES) if rule.kind != "QuotaProject"}


def cel_of(kind: str) -> set[tuple[tuple[str, ...], str, str, str]]:
    crd = yaml.safe_load((ROOT / "crds" / CRDS[kind]).read_text(encoding="utf-8"))
    rules: set[tuple[tuple[str, ...], str, str, str]] = set()

    def walk(node: dict[str, Any], at: tuple[str, ...]) -> None:
        for rule in node.get("x-kubernetes-validations", ()):
            rules.add((at, rule["rule"], rule["message"], rule.get("messageExpression", "")))
        for name, child in node.get("properties", {}).items():
            walk(child, (*at, name))
        if "items" in node:
            walk(node["items"], (*at, "*"))

    walk(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], ())
    return rules


@pytest.mark.parametrize("kind", CRDS)
def test_the_crd_and_the_table_contain_the_same_rules(kind: str) -> None:
    rules = {
        (rule.at, rule.cel, rule.message, rule.message_cel)
        for rule in RULES.values()
        if rule.kind == kind and rule.cel
    }
    assert cel_of(kind) == rules


def test_rule_names_are_unique() -> None:
    assert len(RULES) == len(
        [rule for rule in (*QUOTA_RULES, *CLUSTER_RULES) if rule.kind != "QuotaProject"]
    )


def entity(**slots: Any) -> dict[str, Any]:
    return quota(entity=slots)


def quota_without(field: str) -> dict[str, Any]:
    resource = quota()
    del resource["spec"][field]
    return resource


def ip(name: str) -> dict[str, Any]:
    return quota(entity={"ip": {"name": name}}, limits={"connectionCreationRate": 5})


def requirement(**fields: Any) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "region", **fields}]}


def limits(**values: Any) -> dict[str, Any]:
    return quota(limits=values)


def bounds(**pair: Any) -> dict[str, Any]:
    return cluster(guards={"bounds": [{"limits": {"producerByteRate": pair}}]})


def grant(**pattern: Any) -> dict[str, Any]:
    return cluster(tenants=[{"namespaces": ["a"], "entities": [pattern]}])


def budget(**fields: Any) -> dict[str, Any]:
    return cluster(budgets=[{"name": "a", "limits": {"producerByteRate": 1}, **fields}])


BROKEN: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("one-cluster", quota(clusterSelector={}), "only one of clusterRef and clusterSelector"),
    ("one-cluster", quota_without("clusterRef"), "needs clusterRef or clusterSelector"),
    ("cluster-limits", quota(clusterLimits=[]), "needs clusterSelector"),
    (
        "cluster-limits",
        selecting(clusterLimits=[{"clusterSelector": {}, "limits": {"connectionCreationRate": 5}}]),
        "clusterLimits[0]: connectionCreationRate is for an ip",
    ),
    (
        "cluster-limits-one-of",
        selecting(clusterLimits=[{"limits": {"producerByteRate": 5}}]),
        "needs clusterRef or clusterSelector",
    ),
    (
        "cluster-limits-one-of",
        selecting(
            clusterLimits=[
                {
                    "clusterRef": {"name": "a"},
                    "clusterSelector": {},
                    "limits": {"producerByteRate": 5},
                }
            ]
        ),
        "only one of",
    ),
    (
        "selector-values",
        selecting(clusterSelector=requirement(operator="In")),
        "operator In needs values",
    ),
    (
        "selector-values",
        selecting(clusterSelector=requirement(operator="NotIn", values=[])),
        "operator NotIn needs values",
    ),
    (
        "selector-values",
        selecting(clusterSelector=requirement(operator="Exists", values=["eu"])),
        "operator Exists takes no values",
    ),
    (
        "cluster-limits-selector-values",
        selecting(
            clusterLimits=[
                {"clusterSelector": requirement(operator="In"), "limits": {"producerByteRate": 5}}
            ]
        ),
        "needs values",
    ),
    (
        "cluster-limits-rate-producerByteRate",
        selecting(clusterLimits=[{"clusterSelector": {}, "limits": {"producerByteRate": 0}}]),
        "greater than 0",
    ),
    ("limits-carrier", limits(connectionCreationRate=5), "for an ip"),
    ("limits-carrier", quota(entity={"ip": {"default": True}}), "not producerByteRate"),
    ("entity-shape", entity(), "needs a user"),
    (
        "entity-shape",
        entity(ip={"default": True}, user={"default": True}),
        "ip cannot be combined with user",
    ),
    ("user-one-of", entity(user={}), "needs name or default"),
    ("user-one-of", entity(user={"name": "a", "default": True}), "only one of name and default"),
    ("clientId-one-of", entity(clientId={}), "needs name or default"),
    ("ip-one-of", entity(ip={}), "needs name or default"),
    ("user-length", entity(user={"name": "é" * 257}), "514 bytes"),
    ("clientId-length", entity(clientId={"name": "é" * 257}), "514 bytes"),
    ("ip-canonical", ip("host.example"), "not an IP address"),
    ("ip-canonical", ip("10.0.0.0/8"), "not an IP address"),
    ("ip-canonical", ip("10.1"), "not an IP address"),
    ("ip-canonical", ip("010.0.0.1"), "not an IP address"),
    ("ip-canonical", ip("0:0:0:0:0:0:0:1"), "write ::1"),
    ("ip-canonical", ip("2001:DB8::1"), "write 2001:db8::1"),
    ("ip-canonical", ip("::ffff:1.2.3.4"), "write 1.2.3.4"),
    ("ip-canonical", ip("::ffff:102:304"), "write 1.2.3.4"),
    ("ip-canonical", ip("fe80::1%eth0"), "zone"),
    ("rate-producerByteRate", limits(producerByteRate=0), "greater than 0"),
    ("rate-producerByteRate", limits(producerByteRate=-1), "greater than 0"),
    ("rate-producerByteRate", limits(producerByteRate=2**53 + 1), "no exact float64"),
    ("rate-producerByteRate", limits(producerByteRate=2**63), "maximum"),
    ("rate-producerByteRate", limits(producerByteRate="1.5"), "not a whole number"),
    (
        "rate-producerByteRate",
        limits(producerByteRate="0.1Ki"),
        "102.4, which is not a whole number",
    ),
    ("rate-producerByteRate", limits(producerByteRate="3000m"), "write 3"),
    ("rate-producerByteRate", limits(producerByteRate="0"), "greater than 0"),
    ("rate-producerByteRate", limits(producerByteRate="8Ei"), "broker's maximum"),
    ("rate-producerByteRate", limits(producerByteRate=1.0), "without a point"),
    ("rate-consumerByteRate", limits(consumerByteRate="9007199254740993"), "no exact float64"),
    ("rate-requestPercentage", limits(requestPercentage=2**53 + 1), "no exact float64"),
    ("rate-requestPercentage", limits(requestPercentage=float("inf")), "finite"),
    ("rate-controllerMutationRate", limits(controllerMutationRate=10**400), "finite"),
    (
        "rate-connectionCreationRate",
        quota(entity={"ip": {"default": True}}, limits={"connectionCreationRate": 2**31}),
        "maximum",
    ),
    (
        "confirm-sync",
        cluster(confirmSync="a", expectedClusterId="b"),
        "is not the expectedClusterId",
    ),
    ("until", quota(until="2026-02-30T00:00:00Z"), "not a time"),
    (
        "ignore-until",
        cluster(ignore=[{"user": {"exact": "a"}, "reason": "r", "until": "tomorrow"}]),
        "not a time",
    ),
    (
        "ignore-until",
        cluster(ignore=[{"user": {"exact": "a"}, "reason": "r", "until": "2026-02-30T00:00:00Z"}]),
        "not a time",
    ),
    (
        "approvedRemovals-until",
        cluster(guards={"approvedRemovals": [{"namespace": "a", "until": "2026-02-30T00:00:00Z"}]}),
        "not a time",
    ),
    ("scope-pattern", cluster(scope=[{}]), "at least one of"),
    ("ignore-pattern", cluster(ignore=[{"reason": "r"}]), "at least one of"),
    ("budgets-pattern", budget(entities=[{}]), "at least one of"),
    *(
        (f"budgets-{rule.field}", budget(limits={rule.field: 0}), "must be greater than 0")
        for rule in KEY_RULES.values()
    ),
    (
        "budgets-names",
        cluster(budgets=[{"name": "a", "limits": {}}] * 2),
        "2 budgets have the name 'a'",
    ),
    ("protected-pattern", cluster(guards={"protected": [{"reason": "r"}]}), "at least one of"),
    (
        "protected-ip-alone",
        cluster(guards={"protected": [{"ip": {"exact": "::1"}, "user": {"exact": "a"}}]}),
        "cannot be combined",
    ),
    (
        "tenants-pattern",
        cluster(tenants=[{"namespaces": ["a"], "entities": [{}]}]),
        "at least one of",
    ),
    ("tenants-user-granted", grant(forms=["user"]), "form user has a named user"),
    (
        "tenants-user-granted",
        grant(forms=["defaultUser", "user+clientId"], clientId={"prefix": ""}),
        "form user+clientId has a named user",
    ),
    (
        "tenants-clientId-granted",
        grant(forms=["user", "user+clientId"], user={"prefix": "a"}),
        'add a clientId pattern, or clientId: {prefix: ""}',
    ),
    (
        "tenants-clientId-granted",
        grant(forms=["clientId"], user={"prefix": "a"}),
        "form clientId has a named clientId",
    ),
    ("tenants-clientId-granted", grant(forms=["defaultUser+clientId"]), "has a named clientId"),
    ("tenants-ip-granted", grant(forms=["defaultIp", "ip"]), "form ip has a named ip"),
    (
        "scope-ip-alone",
        cluster(scope=[{"ip": {"exact": "::1"}, "user": {"exact": "a"}}]),
        "cannot be combined",
    ),
    ("scope-user-match", cluster(scope=[{"user": {}}]), "needs exact or prefix"),
    ("scope-user-match", cluster(scope=[{"user": {"exact": "a", "prefix": "b"}}]), "only one of"),
    ("guards-bound-producerByteRate", bounds(min="2Mi", max="1Mi"), "min 2Mi is above max 1Mi"),
    ("guards-bound-producerByteRate", bounds(min=3, max="2"), "above"),
    (
        "tenants-bound-requestPercentage",
        cluster(
            tenants=[
                {
                    "namespaces": ["a"],
                    "entities": [],
                    "bounds": {"requestPercentage": {"min": 2, "max": 1}},
                }
            ]
        ),
        "above",
    ),
)


@pytest.mark.parametrize(("name", "document", "words"), BROKEN)
def test_a_python_rule_rejects_an_invalid_document_with_its_message(
    name: str, document: dict[str, Any], words: str
) -> None:
    messages = [message for _, message in broken(RULES[name], document)]
    assert len(messages) == 1
    assert words in messages[0]


def test_every_python_rule_is_tested_with_an_invalid_document() -> None:
    """All except the rules that exist once per slot, per list and per key by the same function."""
    refused_rules = {name for name, _, _ in BROKEN}
    families = {"match", "ip-alone", "bound", "cluster-limits-rate"}
    missing = {
        name
        for name, rule in RULES.items()
        if rule.broken is not None
        and name not in refused_rules
        and not any(family in name for family in families)
    }
    assert not missing


ACCEPTED = (
    *(
        quota(
            entity=form,
            limits={"connectionCreationRate": 5} if "ip" in form else {"producerByteRate": 5},
        )
        for form in FORMS
    ),
    selecting(),
    selecting(clusterSelector={}),
    selecting(clusterSelector=requirement(operator="DoesNotExist", values=[])),
    selecting(clusterSelector=requirement(operator="NotIn", values=["eu", ""]), clusterLimits=[]),
    selecting(
        clusterLimits=[
            {"clusterRef": {"name": "a"}, "limits": {"producerByteRate": 5}},
            {"clusterSelector": {}, "limits": {"requestPercentage": 5}},
        ]
    ),
    selecting(
        entity={"ip": {"default": True}},
        limits={"connectionCreationRate": 5},
        clusterLimits=[{"clusterSelector": {}, "limits": {"connectionCreationRate": "1k"}}],
    ),
    ip("::1"),
    ip("2001:db8::1"),
    ip("255.255.255.255"),
    ip("1::"),
    ip("::1.2.3.4".replace("1.2.3.4", "102:304")),
    limits(producerByteRate=2**63 - 1),
    limits(producerByteRate=2**53),
    limits(producerByteRate="9223372036854775807"),
    limits(
        producerByteRate="10Mi",
        consumerByteRate="1500",
        requestPercentage=0.001,
        controllerMutationRate=1,
    ),
    cluster(policy="Sync", expectedClusterId="x", confirmSync="x", scope=[{"forms": ["user"]}]),
    cluster(guards={"bounds": [{"limits": {"producerByteRate": {"min": "1Ki", "max": 1024}}}]}),
    grant(user={"prefix": ""}),
    grant(forms=["defaultUser", "defaultIp", "user+defaultClientId"], user={"exact": "a"}),
    grant(
        forms=["user", "user+clientId", "clientId"], user={"prefix": ""}, clientId={"prefix": ""}
    ),
    grant(forms=["ip"], ip={"prefix": ""}),
    cluster(scope=[{"forms": ["user", "ip"]}], ignore=[{"forms": ["clientId"], "reason": "r"}]),
)


@pytest.mark.parametrize("document", ACCEPTED)
def test_no_python_rule_rejects_a_correct_document(document: dict[str, Any]) -> None:
    rules = [rule for rule in RULES.values() if rule.kind == document["kind"]]
    assert [message for rule in rules for _, message in broken(rule, document)] == []


def test_transition_rules_have_no_python_rule_because_files_have_no_previous_version() -> None:
    """A rule about the text of a quantity has none either: in a file its pattern is in the schema."""
    assert {rule.id for rule in RULES.values() if rule.broken is None and not rule.message_cel} == {
        "cluster-immutable",
        "cluster-kind-immutable",
        "entity-immutable",
    }


def test_rules_without_cel_are_about_numbers_that_json_cannot_represent() -> None:
    def kind(rule: StaticRule) -> bool:
        return not rule.cel

    assert {rule.id for rule in filter(kind, RULES.values())} == {
        "rate-requestPercentage",
        "rate-controllerMutationRate",
        "cluster-limits-rate-requestPercentage",
        "cluster-limits-rate-controllerMutationRate",
        "budgets-requestPercentage",
        "budgets-controllerMutationRate",
        "budgets-names",  # the kind of the list
    }


@pytest.mark.parametrize(
    ("text", "good"),
    [("::", True), ("1.2.3.4", True), ("1.2.3", False), ("::1%1", False), ("", False)],
)
def test_only_canonical_ip_addresses_are_accepted(text: str, good: bool) -> None:
    assert canonical_ip(text) is good


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:10Z", 10.0),
        ("1970-01-01T01:00:00+01:00", 0.0),
        ("1970-01-01t00:00:00.5z", 0.5),
        ("1970-01-01", None),
        ("1970-01-01T00:00:00", None),
        ("1970-13-01T00:00:00Z", None),
        ("19700101T000000Z", None),
    ],
)
def test_a_time_requires_a_zone(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds
