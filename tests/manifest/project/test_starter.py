"""The files of a new project."""

import pytest

from reconciler.manifest.loader import load_files
from reconciler.manifest.project.file import parse
from reconciler.manifest.project.starter import POLICIES, Workflow, starter_files
from reconciler.quota.policy import Policy


@pytest.mark.parametrize("policy", POLICIES)
def test_the_project_file_of_the_starter_is_valid(policy):
    files = starter_files(
        folder="Our Quotas_2", cluster="kafka-1", bootstrap="a:1,b:2", policy=policy
    )
    (cluster,) = parse(files["kquota.yaml"]).clusters
    assert cluster.name == "kafka-1"
    assert cluster.project == "our-quotas-2/kafka-1"
    assert cluster.cluster.properties["bootstrap.servers"] == "a:1,b:2"
    assert cluster.cluster.policy is policy
    assert cluster.manifests == ("quotas",)


def test_client_properties_are_read_from_a_file_if_one_is_named():
    files = starter_files(
        folder="/",
        cluster="c",
        bootstrap="a:1",
        policy=Policy.OBSERVE,
        properties_file="my client.properties",
    )
    (cluster,) = parse(files["kquota.yaml"]).clusters
    assert cluster.cluster.properties_file == "my client.properties"
    assert cluster.project == "quotas/c"


def test_the_example_is_a_valid_suspended_document():
    files = starter_files(
        folder="Our Quotas_2", cluster="c", bootstrap="a:1", policy=Policy.OBSERVE
    )
    loaded = load_files([("f", files["quotas/example.yaml"])], clusters={"c": {}})
    assert not loaded.problems
    (declaration,) = loaded.of("c")
    assert declaration.suspended


def test_a_workflow_names_the_cluster_of_the_project():
    workflow = Workflow(path="w.yml", text="cluster: prod\ngroup: plan-prod-1\nproduct: x\n")
    files = starter_files(
        folder="/", cluster="eu-1", bootstrap="a:1", policy=Policy.OBSERVE, workflows=[workflow]
    )
    assert files["w.yml"] == "cluster: eu-1\ngroup: plan-eu-1-1\nproduct: x\n"
