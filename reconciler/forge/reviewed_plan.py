"""Fetches the reviewed plan: the artifact of the newest successful run for a head, validated strictly."""

import io
import zipfile
import zlib
from typing import Final

from msgspec import Struct

from reconciler.errors import ConfigError, ForgeError
from reconciler.forge.github import GitHub, HostRepository, PullRequestHead, workflow_name
from reconciler.forge.rest_client import answered

MAX_PLAN_BYTES: Final = 5 * 1024 * 1024
"""Maximum size of a posted or reviewed plan."""

_MEMBER: Final = "plan.json"
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class _Artifact(Struct, frozen=True, kw_only=True):
    id: int
    name: str
    expired: bool = False


class _RunPull(Struct, frozen=True, kw_only=True):
    number: int


class _WorkflowRun(Struct, frozen=True, kw_only=True):
    id: int
    head_sha: str
    head_branch: str | None = None
    head_repository: HostRepository | None = None
    conclusion: str | None = None
    event: str = ""
    pull_requests: tuple[_RunPull, ...] | None = None

    def is_of(self, number: int, head: PullRequestHead) -> bool:
        """Whether it was started by this pull request, and succeeded.

        GitHub lists the pull requests of a run only while they are open and in the same repository; then the number
        decides. Repository and branch of the head are always present, unless the fork was deleted: such a run never
        matches.
        """
        repository = "" if self.head_repository is None else self.head_repository.full_name
        pulls = [pull.number for pull in self.pull_requests or ()]
        return (
            (self.conclusion, self.event, self.head_sha) == ("success", "pull_request", head.sha)
            and repository.casefold() == head.repository.casefold()
            and head.branch in {"", self.head_branch}
            and (not pulls or number in pulls)
        )


async def reviewed_plan(
    host: GitHub, number: int, head: PullRequestHead, *, workflow: str, artifact: str
) -> str:
    """Return ``plan.json`` from an artifact of the run of exactly this pull request and head.

    An author of a branch may change the workflow, so the content proves nothing: ``apply`` makes the plan again and
    compares. A run of a fork has neither a cluster nor a reviewer who may trust what it wrote, so none counts.

    Args:
        workflow: File name of the workflow.

    Raises:
        ForgeError: There is no such run or artifact, or the head is in a fork.
        ConfigError: The artifact has another content.
    """
    if not host.owns(head):
        raise ForgeError(
            f"pull request {number} is from the fork {head.repository}, whose plan is not verified, so there is no"
            " reviewed plan",
            hint="plan the merged commit, review that plan, and apply it with `kquota apply --expect-digest DIGEST`",
        )
    run = await _run_of(host, number, head, workflow)
    path = f"{host.path}/actions/runs/{run}/artifacts"
    async for item in host.client.items(path, query={"name": artifact}, field="artifacts"):
        stored = answered(item, _Artifact)
        if stored.name == artifact and not stored.expired:
            content = await host.client.download(
                f"{host.path}/actions/artifacts/{stored.id}/zip", max_bytes=MAX_PLAN_BYTES
            )
            return read_artifact(content, location=f"artifact {artifact} of run {run}")
    raise ForgeError(
        f"run {run} for {head.sha} has no artifact {artifact!r}, or it has expired",
        hint="run the plan of the pull request again, or plan again and apply that plan with `kquota apply --expect-digest DIGEST`",
    )


async def _run_of(host: GitHub, number: int, head: PullRequestHead, workflow: str) -> int:
    """Return the newest successful run of a pull request and its head. The API's own filter is not trusted.

    The commit alone is not enough: a fork may open a pull request with the same head commit, and its run is newer.
    """
    path = f"{host.path}/actions/workflows/{workflow_name(workflow)}/runs"
    query = {"head_sha": head.sha, "event": "pull_request", "status": "success"}
    items = host.client.items(path, query=query, field="workflow_runs")
    runs = [answered(item, _WorkflowRun) async for item in items]
    reviewed = [run.id for run in runs if run.is_of(number, head)]
    if not reviewed:
        raise ForgeError(
            f"no run of {workflow} for pull request {number} with the head {head.sha} of {head.repository}"
            " succeeded, so there is no reviewed plan",
            hint="run the plan of the pull request again, or plan again and apply that plan with `kquota apply --expect-digest DIGEST`",
        )
    return max(reviewed)


def read_artifact(content: bytes, *, location: str) -> str:
    """Return the only file of a zip from an untrusted source, limited to the maximum size of a plan.

    Raises:
        ConfigError: It has another content.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(member.filename, member.compress_type) for member in archive.infolist()]
            # Other methods can request gigabytes of memory in a few bytes.
            if members not in [[(_MEMBER, method)] for method in _METHODS]:
                raise ConfigError(
                    f"it should contain {_MEMBER} and nothing else, stored or deflated",
                    location=location,
                )
            with archive.open(_MEMBER) as file:
                text = file.read(MAX_PLAN_BYTES + 1)
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,
        RuntimeError,
        ValueError,
        OSError,
    ) as error:
        raise ConfigError(f"no whole zip file ({error})", location=location) from error
    if len(text) > MAX_PLAN_BYTES:
        raise ConfigError(f"its plan is larger than {MAX_PLAN_BYTES:,} bytes", location=location)
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise ConfigError("its plan is not UTF-8 text", location=location) from error
