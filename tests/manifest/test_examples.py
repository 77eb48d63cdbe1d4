"""The example project is valid, and contains every form of document."""

import re
from pathlib import Path

import pytest
import yaml

from reconciler.manifest.files import read_paths
from reconciler.manifest.loader import LoadedManifests, load_files
from reconciler.manifest.project.file import Project, parse
from reconciler.manifest.project.selection import for_cluster
from reconciler.manifest.project.simulation_policy import policy_of
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.patterns import EntityForm, form
from reconciler.quota.state import set_values

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def project() -> Project:
    return parse((EXAMPLES / "kquota.yaml").read_text(encoding="utf-8"))


def loaded(project: Project, name: str) -> LoadedManifests:
    cluster = project.cluster(name)
    texts = read_paths(cluster.manifests, EXAMPLES, exclude=[project.path])
    return for_cluster(load_files(texts, clusters=project.labels, problems=texts.problems), cluster)


@pytest.mark.parametrize("name", ["demo", "analytics"])
def test_each_cluster_has_correct_documents(project: Project, name: str) -> None:
    manifests = loaded(project, name)
    assert manifests.problems == ()
    assert manifests.warnings == ()
    assert manifests.of(name)


def test_the_examples_contain_all_ten_forms_and_all_five_keys(project: Project) -> None:
    declared = loaded(project, "demo").declarations
    assert {form(declaration.entity) for declaration in declared} == set(EntityForm)
    assert {key for declaration in declared for key, _ in set_values(declaration.limits)} == set(
        Key
    )


def test_the_address_of_the_demo_cluster_comes_from_the_environment(project: Project) -> None:
    assert project.cluster("demo").cluster.properties == {
        "bootstrap.servers": "${env:KQUOTA_DEMO_BOOTSTRAP}"
    }


def test_the_cron_job_that_publishes_evidence_has_a_valid_project() -> None:
    file = EXAMPLES / "kubernetes" / "evidence-cronjob.yaml"
    settings, job = yaml.safe_load_all(file.read_text(encoding="utf-8"))
    new_project = parse(settings["data"]["kquota.yaml"])
    assert new_project.cluster("prod").cluster.telemetry["evidenceUri"].startswith("s3://")
    (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {"project", "tmp"}


def test_the_documented_policy_is_valid() -> None:
    page = (EXAMPLES.parent / "docs" / "recorded-use.md").read_text(encoding="utf-8")
    telemetry, consumers, project = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    cluster = "kind: QuotaCluster\nmetadata: {name: prod}\nspec:\n   bootstrapServers: k:9092\n"
    text = f"{project}---\napiVersion: kafka-quotas.io/v1alpha1\n{cluster}{telemetry}"
    new_project = parse(text)
    policy = policy_of(new_project.simulate)
    assert policy.tier_of("c", entity(user="pay-1")).name == "gold"
    assert policy.tier_of("c", entity(user="etl-1")).tolerance.new_throttled_ms_per_day == 7_200_000
    assert new_project.cluster("prod").cluster.telemetry["maxEvidenceAge"] == "48h"
    head = "apiVersion: kafka-quotas.io/v1alpha1\nkind: QuotaProject\n"
    stated = policy_of(
        parse(
            f"{head}{consumers}  manifests: [quotas]\n---\napiVersion: kafka-quotas.io/v1alpha1\n{cluster}"
        ).simulate
    )
    assert stated != policy
    assert "65536" in repr(stated)
