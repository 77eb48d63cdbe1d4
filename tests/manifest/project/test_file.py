"""kquota.yaml: its value, and errors in it."""

import pytest

from reconciler.errors import ConfigError, ManifestErrors
from reconciler.manifest.project.file import InventoryLocation, parse
from reconciler.quota.entity import entity
from reconciler.quota.grants import Permission
from reconciler.quota.keys import Key
from reconciler.quota.patterns import EntityForm, EntityPattern, NamePattern
from reconciler.quota.planner.guards import NewlyUnlimited, RemovalApproval
from reconciler.quota.planner.value_ranges import ValueRange
from reconciler.quota.policy import DriftMode, Policy
from tests.manifest.samples import refusals

V = "apiVersion: kafka-quotas.io/v1alpha1\n"
PROD = V + "kind: QuotaCluster\nmetadata: {name: prod}\nspec:\n  bootstrapServers: a:9092,b:9092\n"
FULL = (
    V
    + """\
kind: QuotaProject
spec:
  manifests: [quotas, "more/*.yaml"]
  auditLog: audit.jsonl
  inventory: {gitRef: refs/kquota/inventory}
  limits:
    producerByteRate: {min: 1Ki, max: 1Gi}
  simulate: {failOn: {newThrottledPerDay: 10m, maxDelay: 60s}, elastic: Report}
  clusters:
    - name: prod
      manifests: [prod]
      inventory: {file: records.json}
---
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaCluster
metadata: {name: prod}
spec:
  bootstrapServers: "${env:BOOTSTRAP}"
  properties:
    security.protocol: SASL_SSL
    sasl.password: ${file:/run/secrets/kafka:password}
    request.timeout.ms: 30000
  propertiesFile: client.properties
  expectedClusterId: abc
  confirmSync: abc
  policy: Sync
  driftDetection: Correct
  interval: 1h30m
  scope: [{user: {prefix: team-}}, {forms: [ip, defaultIp]}]
  ignore:
    - {clientId: {exact: canary}, keys: [producer_byte_rate], reason: it sets its own, until: "2030-01-01T00:00:00Z"}
  guards:
    maxRemovals: 3
    maxRemovedPercent: 12.5
    maxChangeFactor: 4
    newlyUnlimited: Refuse
    protectDefaults: false
    approvedRemovals:
      - {namespace: payments, until: "2030-01-01T00:00:00Z"}
    bounds:
      - user: {exact: batch}
        limits: {requestPercentage: {max: 400}}
  tenants:
    - namespaces: [payments]
      paths: [quotas/payments/]
      priority: 5
      entities: [{user: {prefix: pay-}}]
      bounds: {consumerByteRate: {max: 10M}}
      allow: [Delete]
---
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaCluster
metadata: {name: dev}
spec: {bootstrapServers: "localhost:9092"}
"""
)


def test_every_setting_is_read_into_its_value() -> None:
    project = parse(FULL)
    assert project.names == ("prod", "dev")
    assert project.simulate["failOn"] == {"newThrottledPerDay": "10m", "maxDelay": "60s"}
    prod = project.cluster("prod")
    assert (prod.manifests, prod.own_manifests, prod.audit_log) == (("prod",), True, "audit.jsonl")
    assert prod.inventory == InventoryLocation(file="records.json")
    cluster = prod.cluster
    assert cluster.properties == {
        "bootstrap.servers": "${env:BOOTSTRAP}",
        "security.protocol": "SASL_SSL",
        "sasl.password": "${file:/run/secrets/kafka:password}",
        "request.timeout.ms": "30000",
    }
    assert cluster.properties_file == "client.properties"
    assert (cluster.expected_cluster_id, cluster.sync_confirmed, cluster.interval) == (
        "abc",
        True,
        5400.0,
    )
    rules = cluster.rules(complete=False)
    assert (rules.policy, rules.drift, rules.complete) == (Policy.SYNC, DriftMode.CORRECT, False)
    assert rules.scope == (
        EntityPattern(user=NamePattern(prefix="team-")),
        EntityPattern(forms=frozenset({EntityForm.IP, EntityForm.DEFAULT_IP})),
    )
    (ignored,) = rules.ignore
    assert (ignored.reason, ignored.keys, ignored.until) == (
        "it sets its own",
        {Key.PRODUCER_BYTE_RATE},
        1893456000.0,
    )


def test_guards_and_bounds_of_cluster_and_project_are_combined() -> None:
    cluster = parse(FULL).cluster("prod").cluster
    guards = cluster.guards
    assert (guards.max_removals, guards.max_removed_percent, guards.max_change_factor) == (
        3,
        12.5,
        4.0,
    )
    assert guards.newly_unlimited is NewlyUnlimited.REFUSE
    assert not guards.protect_defaults
    assert guards.approved_removals == (
        RemovalApproval(namespace="payments", until=1_893_456_000.0),
    )
    own, general = guards.bounds
    assert own == ValueRange(
        entities=EntityPattern(user=NamePattern(exact="batch")),
        key=Key.REQUEST_PERCENTAGE,
        maximum=400.0,
    )
    assert (general.key, general.minimum, general.maximum) == (
        Key.PRODUCER_BYTE_RATE,
        1024.0,
        2.0**30,
    )
    assert general.entities.forms == frozenset(EntityForm)


def test_a_tenant_is_a_grant_bound_to_paths() -> None:
    (grant,) = parse(FULL).cluster("prod").cluster.grants
    assert grant.tenant.namespaces == {"payments"}
    assert grant.tenant.allow == {Permission.DELETE}
    assert grant.tenant.priority == 5
    assert grant.tenant.bounds[0].maximum == 10e6
    assert [
        grant.covers(path)
        for path in ("quotas/payments/a.yaml", "quotas/payments-b/a.yaml", "a.yaml")
    ] == [True, False, False]


def test_unset_settings_have_their_defaults() -> None:
    dev = parse(FULL).cluster("dev")
    assert (dev.manifests, dev.own_manifests) == (("quotas", "more/*.yaml"), False)
    assert dev.inventory == InventoryLocation(git_ref="refs/kquota/inventory")
    alone = parse(PROD).cluster("prod")
    assert (alone.manifests, alone.audit_log, alone.inventory.file) == (
        (),
        ".kquota/audit.jsonl",
        ".kquota/inventory.json",
    )
    cluster = alone.cluster
    assert (cluster.policy, cluster.drift, cluster.suspend, cluster.interval) == (
        Policy.UPSERT,
        DriftMode.WARN,
        False,
        120.0,
    )
    assert not cluster.sync_confirmed
    assert cluster.grants == ()


def test_stated_fetch_sizes_of_consumers_are_those_of_one_partition() -> None:
    consumers = """\
    consumers:
      - {entities: [{user: {exact: a}}], maxPartitionFetchBytes: 2Mi, fetchMaxBytes: 64Ki}
      - {entities: [{user: {exact: b}}], maxPartitionFetchBytes: 2Mi}
      - {connections: 1}
"""
    text = f"{V}kind: QuotaProject\nspec:\n  simulate:\n{consumers}---\n{PROD}"
    settings = parse(text).warnings
    users = entity(user="a"), entity(user="b"), entity(user="c")
    assert [settings.fetch_size(user) for user in users] == [65_536, 2_097_152, 1_048_576]


def test_the_repr_of_a_project_contains_no_secret() -> None:
    text = (
        PROD
        + "  properties: {sasl.password: hunter2}\n  telemetry: {prometheus: 'https://u:hunter3@p'}\n"
    )
    project = parse(text)
    assert "hunter" not in repr(project)
    assert "hunter" not in repr(project.cluster("prod"))


def test_an_unknown_cluster_is_reported_with_the_most_similar_name() -> None:
    with pytest.raises(ConfigError, match="no QuotaCluster has the name 'prd'") as caught:
        parse(FULL).cluster("prd")
    assert caught.value.hint == "did you mean prod?"


WRONG = refusals(
    {"+": PROD, "*": V},
    r"""
nothing |  | 1:1 contains no QuotaCluster
only a project | *kind: QuotaProject\nspec: {}\n | 1:1 contains no QuotaCluster
a quota | +---\napiVersion: kafka-quotas.io/v1alpha1\nkind: ClientQuota\n | 8:1 must be in the manifests
a stranger | kind: ConfigMap\n | 1:1 not 'ConfigMap'
no kind | a: b\n | 1:1 a document here has kind QuotaProject or QuotaCluster
a list | - a\n | 1:1 a document here has kind
two projects | +---\napiVersion: kafka-quotas.io/v1alpha1\nkind: QuotaProject\nspec: {}\n---\napiVersion: kafka-quotas.io/v1alpha1\nkind: QuotaProject\nspec: {}\n | 11:1 a second QuotaProject; the first is on line 7
one cluster twice | +---\napiVersion: kafka-quotas.io/v1alpha1\nkind: QuotaCluster\nmetadata: {name: prod}\nspec:\n  bootstrapServers: a:9092,b:9092\n | 7:1 a second QuotaCluster 'prod'; the first is on line 1
unknown field | +  polcy: Sync\n | 6:3 did you mean policy?
wrong policy | +  policy: sync\n | 6:11 did you mean Sync?
a secretRef | +  secretRef: {name: a}\n | 6:3 only the operator reads Secrets
a flag as property | +  properties: {a.b: true}\n | 6:21 must be a whole number or text, not true
a property key | +  properties: {on: x}\n | 6:16 put it in quotes
a duration without a unit | +  interval: 5\n | 6:13 '5' has no unit; write for example 90s
a duration | +  interval: 5 minutes\n | 6:13 is not a duration
a time | +  ignore: [{user: {exact: a}, reason: r, until: 2030-01-01}]\n | 6:49 quotes
an item twice | +  tenants: [{namespaces: [a, a], entities: []}]\n | 6:26 contains an item twice
a pattern with both | +  scope: [{user: {exact: a, prefix: b}}]\n | 6:18 only one of exact and prefix
an empty pattern | +  scope: [{}]\n | 6:11 at least one of forms
a grant of every client-id | +  tenants:\n    - namespaces: [a]\n      entities:\n        - forms: [clientId]\n | 9:11 has a named clientId; add a clientId pattern
no headroom | +  brokerCapacity: {ingress: 1Mi, headroom: 0}\n | 6:34 spec.brokerCapacity.headroom: 0 is not above 0
less than a millionth of headroom | +  brokerCapacity: {headroom: 0.0000001}\n | 6:20 is not above 0
no capacity | +  brokerCapacity: {ingress: 0}\n | 6:20 spec.brokerCapacity.ingress: 0 is not above 0; leave it out if it is not known
half a byte of capacity | +  brokerCapacity: {egress: 0.0005k}\n | 6:28 spec.brokerCapacity.egress: 0.0005k is 0.5, which is not a whole number
a budget without an amount | +  budgets: [{name: a, limits: {}}]\n | 6:31 spec.budgets[0].limits
a budget in an unknown unit | +  budgets: [{name: a, limits: {producerByteRate: 20MB}}]\n | 6:50 20MB
a negative budget | +  budgets: [{name: a, limits: {requestPercentage: -5}}]\n | 6:51 requestPercentage
two budgets of one name | +  budgets: [{name: a, limits: {requestPercentage: 5}}, {name: a, limits: {requestPercentage: 6}}]\n | 6:12 spec.budgets: 2 budgets have the name 'a'
bounds the wrong way | +  guards: {bounds: [{limits: {producerByteRate: {min: 2Mi, max: 1Mi}}}]}\n | 6:49 min 2Mi is above max 1Mi
an unlisted cluster | +---\napiVersion: kafka-quotas.io/v1alpha1\nkind: QuotaProject\nspec:\n  clusters: [{name: prd}]\n | 10:21 did you mean prod?
a cluster listed twice | +---\napiVersion: kafka-quotas.io/v1alpha1\nkind: QuotaProject\nspec:\n  clusters: [{name: prod}, {name: prod}]\n | 10:35 listed twice
no manifests in a list | +---\napiVersion: kafka-quotas.io/v1alpha1\nkind: QuotaProject\nspec: {manifests: []}\n | 9:19 at least 1 items
two places for records | +---\napiVersion: kafka-quotas.io/v1alpha1\nkind: QuotaProject\nspec: {inventory: {file: a, gitRef: refs/b}}\n | 9:19 more than 1 fields
no YAML | +  x: [\n | 7:1 not YAML
""",
)


@pytest.mark.parametrize(("text", "place", "words"), WRONG.values(), ids=WRONG)
def test_an_error_is_reported_with_its_place(text: str, place: str, words: str) -> None:
    with pytest.raises(ManifestErrors) as caught:
        parse(text, "kquota.yaml")
    assert [f"{p.path}:{p.line}:{p.column}" for p in caught.value.problems] == [
        f"kquota.yaml:{place}"
    ]
    assert words in caught.value.problems[0].message


def test_all_errors_of_a_project_file_are_reported_together() -> None:
    with pytest.raises(ManifestErrors) as caught:
        parse(
            PROD
            + "  policy: sync\n  interval: soon\n---\n"
            + V
            + "kind: QuotaProject\nspec: {manifest: []}\n"
        )
    assert [problem.line for problem in caught.value.problems] == [6, 7, 11]


GROUPED = (
    V
    + """\
kind: QuotaProject
spec:
  clusterGroups:
    - {name: europe, clusters: [eu-1, eu-2], labels: {region: eu}}
    - {name: large, clusters: [eu-1], labels: {size: large}}
---
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaCluster
metadata: {name: eu-1, labels: {tier: prod}}
spec: {bootstrapServers: "a:9092"}
---
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaCluster
metadata: {name: eu-2}
spec: {bootstrapServers: "b:9092"}
"""
)


def test_a_cluster_has_its_own_labels_those_of_its_groups_and_its_name() -> None:
    assert parse(GROUPED).labels == {
        "eu-1": {"tier": "prod", "region": "eu", "size": "large", "kafka-quotas.io/name": "eu-1"},
        "eu-2": {"region": "eu", "kafka-quotas.io/name": "eu-2"},
    }


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "clusters: [eu-1]",
            "clusters: [eu-3]",
            "no QuotaCluster in this file is called 'eu-3'; did you mean eu-",
        ),
        (
            "{size: large}",
            "{region: us}",
            "group large gives eu-1 the label region=us, and it has region=eu",
        ),
        (
            "{size: large}",
            "{tier: dev}",
            "group large gives eu-1 the label tier=dev, and it has tier=prod",
        ),
        ("{size: large}", "{kafka-quotas.io/name: x}", "it has kafka-quotas.io/name=eu-1"),
        (
            "{tier: prod}",
            "{kafka-quotas.io/name: x}",
            "kafka-quotas.io/name is always the name of the cluster",
        ),
        ("labels: {size: large}", "labels: {}", "needs at least 1 fields"),
        ("labels: {size: large}", "labels: {size: 5}", "put it in quotes"),
        ("clusters: [eu-1]", "clusters: [eu-1, eu-1]", "contains an item twice"),
    ],
)
def test_a_group_that_contradicts_its_clusters_is_refused(old: str, new: str, words: str) -> None:
    with pytest.raises(ManifestErrors) as caught:
        parse(GROUPED.replace(old, new))
    assert words in str(caught.value)
