"""Trusted against head configuration: every difference is shown, but no secret."""

import pytest

from reconciler.manifest.project.file import parse
from reconciler.manifest.project.trusted_changes import changes_between
from tests.manifest.project.test_file import FULL, PROD, V


def changed_rows(before: str, after: str) -> list[tuple[str, str, str, str]]:
    return [
        (change.document, change.field, change.trusted, change.head)
        for change in changes_between(parse(before), parse(after))
    ]


def test_two_texts_with_the_same_meaning_have_no_differences() -> None:
    assert (
        changed_rows(
            FULL,
            FULL.replace("[quotas, ", "['quotas', ").replace(
                "maxRemovals: 3", "maxRemovals: 3 # three"
            ),
        )
        == []
    )


@pytest.mark.parametrize(
    ("old", "new", "row"),
    [
        (
            "maxRemovals: 3",
            "maxRemovals: 300",
            ("QuotaCluster/prod", "spec.guards.maxRemovals", "3", "300"),
        ),
        (
            "driftDetection: Correct",
            "driftDetection: Disabled",
            ("QuotaCluster/prod", "spec.driftDetection", "Correct", "Disabled"),
        ),
        (
            "newlyUnlimited: Refuse",
            "",
            ("QuotaCluster/prod", "spec.guards.newlyUnlimited", "Refuse", "(unset)"),
        ),
        (
            "protectDefaults: false",
            "protectDefaults: true",
            ("QuotaCluster/prod", "spec.guards.protectDefaults", "false", "true"),
        ),
        (
            "allow: [Delete]",
            "allow: [Delete, Suspend]",
            (
                "QuotaCluster/prod",
                "spec.tenants",
                "[{namespaces: [payments], paths: [quotas/payments/], priority: 5, entities: [{user: {prefix: pay-}}], bounds: {consumerByteRate: {max: 10M}}, allow: [Delete]}]",
                "[{namespaces: [payments], paths: [quotas/payments/], priority: 5, entities: [{user: {prefix: pay-}}], bounds: {consumerByteRate: {max: 10M}}, allow: [Delete, Suspend]}]",
            ),
        ),
        (
            "[quotas, ",
            "[",
            ("QuotaProject", "spec.manifests", "[quotas, more/*.yaml]", "[more/*.yaml]"),
        ),
        (
            "localhost:9092",
            "evil:9092",
            ("QuotaCluster/dev", "spec.bootstrapServers", "localhost:9092", "evil:9092"),
        ),
        (
            "SASL_SSL",
            "PLAINTEXT",
            ("QuotaCluster/prod", "spec.properties.security.protocol", "SASL_SSL", "PLAINTEXT"),
        ),
        (
            "${file:/run/secrets/kafka:password}",
            "hunter2",
            (
                "QuotaCluster/prod",
                "spec.properties.sasl.password",
                "${file:/run/secrets/kafka:password}",
                "(hidden)",
            ),
        ),
        (
            "${file:/run/secrets/kafka:password}",
            "'${env:A}hunter2'",
            (
                "QuotaCluster/prod",
                "spec.properties.sasl.password",
                "${file:/run/secrets/kafka:password}",
                "(hidden)",
            ),
        ),
        ("request.timeout.ms: 30000", "sasl.jaas.config: hunter2 required;", None),
    ],
)
def test_one_changed_setting_is_one_row(
    old: str, new: str, row: tuple[str, str, str, str] | None
) -> None:
    assert old in FULL
    rows = changed_rows(FULL, FULL.replace(old, new))
    if row is not None:
        assert rows == [row]
    assert "hunter2" not in str(rows)


def test_a_new_cluster_is_listed_with_its_addresses() -> None:
    rows = changed_rows(
        PROD,
        PROD + "---\n" + PROD.replace("name: prod", "name: new").replace("a:9092,b:9092", "evil:1"),
    )
    assert rows == [
        ("QuotaCluster/new", "", "(absent)", "(present)"),
        ("QuotaCluster/new", "spec.bootstrapServers", "(unset)", "evil:1"),
    ]


def test_a_removed_cluster_is_one_row() -> None:
    project = V + "kind: QuotaProject\nspec: {manifests: [a]}\n---\n"
    assert changed_rows(project + PROD, PROD) == [("QuotaProject", "", "(present)", "(absent)")]


@pytest.mark.parametrize(
    "url",
    [
        "https://user:hunter2@p.example/x",
        "https://hunter2@p.example",
        "https://p.example/x?token=hunter2&a=b",
    ],
)
def test_secrets_in_addresses_are_hidden(url: str) -> None:
    rows = changed_rows(PROD, PROD + f"  telemetry: {{prometheus: '{url}'}}\n")
    assert len(rows) == 1
    assert "p.example" in rows[0][3]
    assert "hunter2" not in str(rows)


def test_every_property_of_an_added_or_removed_block_is_hidden() -> None:
    rows = changed_rows(
        PROD, PROD + "  properties: {ssl.key.password: hunter2, client.id: kquota}\n"
    )
    assert rows == [
        ("QuotaCluster/prod", "spec.properties.client.id", "(unset)", "kquota"),
        ("QuotaCluster/prod", "spec.properties.ssl.key.password", "(unset)", "(hidden)"),
    ]
