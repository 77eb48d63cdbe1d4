"""The files of a new project: its project file, an example document, an ignore file, pipelines. Pure text."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from reconciler.manifest.project.file import FILE_NAME
from reconciler.manifest.schema_names import API_VERSION, CLUSTER, PROJECT, QUOTA
from reconciler.manifest.writer import scalar
from reconciler.quota.policy import Policy

MANIFESTS: Final = "quotas"
"""The folder of the manifests."""

STATE_FOLDER: Final = ".kquota"
"""The folder of records, audit log and outcomes."""

_PROJECT: Final = """\
# The project file of kquota: which clusters there are, what may be changed in them, and where their manifests are.
apiVersion: {version}
kind: {project}
spec:
  manifests: [{manifests}]        # every .yaml file below this folder
---
apiVersion: {version}
kind: {cluster}
metadata: {{name: {name}}}
spec:
  bootstrapServers: {bootstrap}
{connection}  policy: {policy}               # {meaning}
"""
_CONNECTION: Final = """\
  # Put the content of your client.properties below properties, or refer to the file with propertiesFile. Example:
  # properties:
  #   security.protocol: SASL_SSL
  #   sasl.mechanism: SCRAM-SHA-512
  #   sasl.username: quota-applier
  #   sasl.password: ${env:KAFKA_PASSWORD}
"""
_MEANINGS: Final[Mapping[Policy, str]] = MappingProxyType(
    {
        Policy.OBSERVE: "only reports; Upsert also writes what the manifests declare",
        Policy.UPSERT: "writes the declared values; a deleted document removes no limit",
    }
)
POLICIES: Final = tuple(_MEANINGS)
"""The policies that a new project may have."""

_EXAMPLE: Final = """\
# One entity and its limits. Limits are per broker. This document is suspended and not applied:
# set the name, remove the last line, and run `kquota plan`.
apiVersion: {version}
kind: {quota}
metadata: {{name: example}}
spec:
  clusterRef: {{name: {name}}}
  entity:
    user: {{name: example}}         # the default user is {{default: true}}
  limits:
    producerByteRate: 10Mi        # bytes per second; also consumerByteRate, requestPercentage, controllerMutationRate
  suspend: true
"""
_IGNORE: Final = """\
# Records, audit log and outcomes of kquota. They decide what may be removed, so they are never part of a commit.
*
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A pipeline that a project may use."""

    path: str
    text: str  # its text, for a cluster named `prod`


def starter_files(
    *,
    cluster: str,
    bootstrap: str,
    policy: Policy,
    properties_file: str | None = None,
    workflows: Sequence[Workflow] = (),
) -> dict[str, str]:
    """Return the texts of a new project by path, relative to its folder.

    Args:
        policy: One of :data:`POLICIES`.
        properties_file: Client properties, relative to the project file; ``None`` = none.
    """
    connection = (
        _CONNECTION if properties_file is None else f"  propertiesFile: {scalar(properties_file)}\n"
    )
    project = _PROJECT.format(
        version=API_VERSION,
        project=PROJECT,
        cluster=CLUSTER,
        manifests=MANIFESTS,
        name=scalar(cluster),
        bootstrap=scalar(bootstrap),
        connection=connection,
        policy=policy,
        meaning=_MEANINGS[policy],
    )
    example = _EXAMPLE.format(version=API_VERSION, quota=QUOTA, name=scalar(cluster))
    return {
        FILE_NAME: project,
        f"{MANIFESTS}/example.yaml": example,
        f"{STATE_FOLDER}/.gitignore": _IGNORE,
        **{
            workflow.path: re.sub(r"\bprod\b", lambda _: cluster, workflow.text)
            for workflow in workflows
        },
    }
