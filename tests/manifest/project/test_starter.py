"""The files of a new project."""

from reconciler.manifest.project.file import parse
from reconciler.manifest.project.starter import starter_files
from reconciler.quota.policy import Policy


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
