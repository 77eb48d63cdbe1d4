"""The files of a new project: its project file, an example document, an ignore file, pipelines. Pure text."""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from reconciler.base.durable_files import IGNORE
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
metadata: {{name: {project_name}}}     # in the ownership records; records of another project are refused
spec:
  manifests: [{manifests}]        # every .yaml file below this folder
{records}---
apiVersion: {version}
kind: {cluster}
metadata: {{name: {name}}}
spec:
  bootstrapServers: {bootstrap}
{connection}  policy: {policy}               # {meaning}
"""
_RECORDS: Final = """\
  inventory: {gitRef: refs/kquota/inventory}   # the records of applied limits: a runner keeps no files
"""
_PIPELINE_CONNECTION: Final = """\
  properties:                   # as in client.properties; remove them if the brokers need neither TLS nor a login
    security.protocol: SASL_SSL
    sasl.mechanism: SCRAM-SHA-512
    sasl.username: ${env:QUOTA_USER}
    sasl.password: ${env:QUOTA_PASSWORD}
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
_RELEASE: Final = """\
the COMMIT of the release, from the last line of the first command:
git ls-remote https://github.com/kafka-quotas/kafka-quota-reconciler '{version}*'
sed -i 's/0\\{{40\\}}/COMMIT/' {pipelines}\
"""
_LOGIN: Final = """\
spec.properties in kquota.yaml, if the brokers need other settings
than SASL_SSL and SCRAM-SHA-512\
"""
_OBSERVES: Final = """\
policy: Upsert in kquota.yaml, once the plan is as intended; Observe
applies nothing\
"""
_SETTINGS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "github": (
            """\
in GitHub, under Settings > Secrets and variables > Actions:
variable QUOTA_BOOTSTRAP         {bootstrap}
variable QUOTA_PLANNER           a user that may read quotas
variable QUOTA_APPLIER           a user that may also alter quotas
secret   QUOTA_PLANNER_PASSWORD  the password of the first user\
""",
            """\
in GitHub, under Settings > Environments: kafka-{cluster} with required
reviewers, kafka-ends without; both with the deployment branch main
secret   QUOTA_APPLIER_PASSWORD  the password of the second user, in both\
""",
            """\
these files on main, before the first pull request: its plan uses the
kquota.yaml of main. The run of quotas-apply that this push starts fails,
because no plan of these files was reviewed\
""",
        ),
        "gitlab": (
            """\
in GitLab, the environments and variables at the top of .gitlab-ci.yml
QUOTA_BOOTSTRAP                  {bootstrap}\
""",
            """\
these files on the default branch, before the first merge request\
""",
        ),
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


class Workflow(Struct, frozen=True, kw_only=True, gc=False):
    """A pipeline that a project may use."""

    path: str
    text: str  # its text, for a cluster named `prod`


def starter_files(
    *,
    folder: str,
    cluster: str,
    bootstrap: str,
    policy: Policy,
    properties_file: str | None = None,
    workflows: Sequence[Workflow] = (),
) -> dict[str, str]:
    """Return the texts of a new project by path, relative to its folder.

    Args:
        folder: Name of the project's folder, from which the project is named.
        policy: One of :data:`POLICIES`.
        properties_file: Client properties, relative to the project file; ``None`` = none.
        workflows: The pipelines; with them, records go under a git ref, and brokers and login come from the environment.
    """
    connection = _PIPELINE_CONNECTION if workflows else _CONNECTION
    if properties_file is not None:
        connection = f"  propertiesFile: {scalar(properties_file)}\n"
    project = _PROJECT.format(
        version=API_VERSION,
        project=PROJECT,
        project_name=scalar(re.sub("[^a-z0-9]+", "-", folder.lower()).strip("-") or "quotas"),
        cluster=CLUSTER,
        manifests=MANIFESTS,
        name=scalar(cluster),
        records=_RECORDS if workflows else "",
        bootstrap="${env:QUOTA_BOOTSTRAP}" if workflows else scalar(bootstrap),
        connection=connection,
        policy=policy,
        meaning=_MEANINGS[policy],
    )
    example = _EXAMPLE.format(version=API_VERSION, quota=QUOTA, name=scalar(cluster))
    return {
        FILE_NAME: project,
        f"{MANIFESTS}/example.yaml": example,
        f"{STATE_FOLDER}/.gitignore": IGNORE,
        **{
            workflow.path: re.sub(r"\bprod\b", lambda _: cluster, workflow.text)
            for workflow in workflows
        },
    }


def remaining_settings(
    host: str,
    *,
    cluster: str,
    bootstrap: str,
    policy: Policy,
    version: str,
    pipelines: str,
    properties_file: str | None,
) -> list[str]:
    """Return what pipelines need besides the files of :func:`starter_files`, one text of one or more lines each.

    Args:
        host: ``github`` or ``gitlab``.
        version: The tag of the release.
        pipelines: The files of the pipelines, as words of a shell.
    """
    texts = [_RELEASE, *([] if properties_file else [_LOGIN]), *_SETTINGS[host]]
    texts += [_OBSERVES] if policy is Policy.OBSERVE else []
    return [
        text.format(cluster=cluster, bootstrap=bootstrap, version=version, pipelines=pipelines)
        for text in texts
    ]
