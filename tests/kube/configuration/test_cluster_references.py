"""A QuotaCluster must not give access to files, variables and secrets that only the operator can read."""

import pytest

from reconciler.kube.configuration.cluster_references import cluster_problems, refused_references
from tests.kube.worlds import quota_cluster, seen

REFUSED = {
    "bootstrapServers": {"bootstrapServers": "${env:HOST}:9092"},
    "a variable": {"properties": {"client.id": "${env:HOME}"}},
    "a file": {"properties": {"sasl.username": "${file:/etc/shadow:root}"}},
    "a directory": {"properties": {"client.id": "x${directory:/var/run/secrets:token}"}},
    "a path": {"properties": {"ssl.truststore.location": "/etc/passwd"}},
    "librdkafka's path": {"properties": {"ssl.ca.location": "/etc/passwd"}},
    "a token URL": {"properties": {"sasl.oauthbearer.token.endpoint.url": "https://example.org"}},
    "a properties file": {"propertiesFile": "client.properties"},
}
SECRETS = {
    "a password": {"properties": {"sasl.password": "planted-secret"}},
    "a JAAS line": {"properties": {"sasl.jaas.config": "x required password=planted-secret;"}},
    "a private key": {"properties": {"ssl.key.pem": "planted-secret"}},
    "a proxy with a password": {"properties": {"proxy.url": "http://me:planted-secret@proxy"}},
}
FINE = {
    "nothing": {},
    "plain properties": {"properties": {"security.protocol": "SASL_SSL", "request.timeout.ms": 5}},
    "a proxy": {"properties": {"proxy.url": "http://proxy:3128"}},
    "a pem": {"properties": {"ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----"}},
    "a secret": {"secretRef": {"name": "kafka"}},
}


@pytest.mark.parametrize("case", REFUSED)
def test_references_to_files_and_variables_are_refused_and_named_by_field(case):
    (problem,) = refused_references(seen(quota_cluster(**REFUSED[case])))
    assert problem.startswith("spec.")
    assert cluster_problems(seen(quota_cluster(**REFUSED[case]))) == (problem,)


@pytest.mark.parametrize("case", REFUSED)
def test_an_operator_that_allows_references_accepts_them_except_for_properties_files(case):
    problems = refused_references(seen(quota_cluster(**REFUSED[case])), allow_references=True)
    assert bool(problems) == (case == "a properties file")


@pytest.mark.parametrize("case", SECRETS)
@pytest.mark.parametrize("allow", [True, False])
def test_secrets_in_the_spec_are_refused_and_not_repeated(case, allow):
    (problem,) = refused_references(seen(quota_cluster(**SECRETS[case])), allow_references=allow)
    assert "planted-secret" not in problem
    assert "secretRef" in problem


def test_a_secret_by_reference_is_accepted_where_references_are_allowed():
    obj = quota_cluster(properties={"sasl.password": "${env:PASSWORD}"})
    assert cluster_problems(seen(obj), allow_references=True) == ()


@pytest.mark.parametrize("case", FINE)
def test_a_spec_without_references_is_accepted(case):
    assert cluster_problems(seen(quota_cluster(**FINE[case]))) == ()


def test_schema_errors_are_listed_with_their_fields():
    problems = cluster_problems(seen(quota_cluster(policy="Sync", interval="soon")))
    assert any("interval" in problem for problem in problems)
    rules = cluster_problems(seen(quota_cluster(expectedClusterId="a", confirmSync="b")))
    assert any("confirmSync" in problem for problem in rules)


def test_metadata_of_the_api_server_is_not_an_error():
    obj = quota_cluster()
    obj["metadata"] |= {"managedFields": [{}], "annotations": {"x": "y" * 70_000}}
    obj["status"] = {"clusterId": "x"}
    assert cluster_problems(seen(obj)) == ()
