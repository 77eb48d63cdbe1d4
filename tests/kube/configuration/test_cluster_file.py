"""QuotaClusters from a file: the same documents, the same rules."""

import pytest

from reconciler.errors import ConfigError, ManifestErrors
from reconciler.kube.configuration.cluster_references import cluster_problems, read_clusters

PROD = """\
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaCluster
metadata: {name: prod}
spec: {bootstrapServers: "broker:9092", secretRef: {name: kafka}}
"""


def written(tmp_path, text):
    path = tmp_path / "clusters.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_documents_of_a_file_look_like_resources_without_a_status(tmp_path):
    (prod,) = read_clusters(written(tmp_path, PROD))
    assert prod.name == "prod"
    assert prod.spec["secretRef"] == {"name": "kafka"}
    assert not prod.is_stored
    assert cluster_problems(prod) == ()


def test_a_changed_spec_has_another_generation(tmp_path):
    (first,) = read_clusters(written(tmp_path, PROD))
    (second,) = read_clusters(written(tmp_path, PROD.replace("9092", "9093")))
    assert first.generation != second.generation


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PROD + "---\n" + PROD, "6:1: QuotaCluster prod is defined twice"),
        (PROD.replace("QuotaCluster", "ClientQuota"), "1:1: this file may contain only Quota"),
        (PROD.replace("bootstrapServers", "bootstrap"), "4:8: spec.bootstrap: unknown field"),
        (PROD.replace("secretRef", "suspend: yes, secretRef"), "spec.suspend: must be true or"),
        (
            PROD.replace("secretRef", "interval: 12:30, secretRef"),
            "spec.interval: '12:30' has no unit",
        ),
        ("[", "clusters.yaml:2:1: not YAML"),
    ],
)
def test_an_invalid_field_is_an_error_with_its_place(tmp_path, text, words):
    with pytest.raises(ManifestErrors) as caught:
        read_clusters(written(tmp_path, text))
    assert words in "\n".join(map(str, caught.value.problems))


def test_a_missing_or_empty_file_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_clusters(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="holds no"):
        read_clusters(written(tmp_path, ""))
