"""Requests of use cases as plain values. Imports nothing slow, so that a command line can create them at once."""

from enum import Enum, auto
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import fields

from reconciler.errors import UsageError
from reconciler.quota.entity import Entity, entity_text

CONCURRENCY: Final = 100
"""Clusters at the same time. One that never answers occupies a slot until its deadline."""

AUTO: Final = "auto"
"""Evidence address from the cluster's configuration."""


class TargetRequest(Struct, frozen=True, kw_only=True):
    """The clusters of a command, as typed."""

    # The project file; None = `kquota.yaml`, here or in a parent folder (`project_files`).
    project: Path | None = None
    cluster: str | None = None  # name of one cluster; None = the only one
    every: bool = False
    bootstrap_server: str | None = None
    # Java properties of the client; with a project they are added to its settings.
    command_config: str | None = None
    # Revision from which the project file is read; None = the file in the work tree.
    config_from: str | None = None
    timeout: float | None = None  # seconds for one call, instead of the configured ones
    concurrency: int = CONCURRENCY
    takes_all: bool = False
    from_environment: frozenset[str] = frozenset()  # the values that come from `KQUOTA_*` variables

    def __post_init__(self) -> None:
        if self.every and self.cluster is not None:
            raise UsageError("--all and --cluster contradict each other")
        if self.by_address and (self.every or self.project or self.config_from):
            raise UsageError(
                "--bootstrap-server (KQUOTA_BOOTSTRAP_SERVERS) cannot be combined with --all, --project"
                " (KQUOTA_PROJECT) and --config-from, which are about the clusters of a project file"
            )

    @property
    def by_address(self) -> bool:
        """Whether brokers were typed, so that no project file is read."""
        return self.bootstrap_server is not None


class RecordUse(Enum):
    """Which ownership records a run uses."""

    OWN = auto()  # those of this project; those of another project are refused
    TAKE_OVER = auto()  # records of another project become records of this one
    ANY = auto()  # those of any project, by a run that writes nothing, or only what its user named
    NONE = auto()


class PlanRequest(Struct, frozen=True, kw_only=True):
    """The typed paths and options that decide what a plan is; ``None`` keeps the trusted configuration."""

    paths: tuple[str, ...] = ()  # relative to the current folder; empty = those of the project
    validate: str = "auto"
    take_over: bool = False
    pace: bool = False
    no_inventory: bool = False
    policy: str | None = None
    confirm_sync: str | None = None
    only: tuple[Entity, ...] = ()
    correct_drift: bool = False
    force: bool = False
    max_removals: int | None = None
    max_removed_percent: float | None = None
    max_change_factor: float | None = None
    allow_newly_unlimited: bool = False
    allow_small_values: bool = False
    allow_defaults: bool = False
    allow_empty: bool = False

    def __post_init__(self) -> None:
        if self.no_inventory and self.take_over:
            raise UsageError("--take-over is about the records that --no-inventory does not use")

    @property
    def records(self) -> RecordUse:
        """The records of a run that writes."""
        if self.no_inventory:
            return RecordUse.NONE
        return RecordUse.TAKE_OVER if self.take_over else RecordUse.OWN

    @property
    def selection(self) -> tuple[str, ...]:
        """The words that select the same plan."""
        return (*self.options, *(("--", *self.paths) if self.paths else ()))

    @property
    def options(self) -> tuple[str, ...]:
        """The options that are not the default, without those that validate or record a plan."""
        words: list[str] = []
        for option in fields(self)[_FIRST_OF_SELECTION:]:
            value, name = getattr(self, option.name), f"--{option.name.replace('_', '-')}"
            values = map(entity_text, value) if isinstance(value, tuple) else [value]
            words += [
                word
                for each in values
                if each != option.default
                for word in ([name] if each is True else [name, str(each)])
            ]
        return tuple(words)


_FIRST_OF_SELECTION: Final = PlanRequest.__struct_fields__.index("no_inventory")


class ExportLayout(Struct, frozen=True, kw_only=True):
    """The typed options about names and files of exported documents."""

    namespace: str
    split: str
    team: tuple[str, ...]
    partial: bool


class EvidenceRequest(Struct, frozen=True, kw_only=True):
    """The typed options about evidence."""

    evidence: str = AUTO  # an address; `auto` = the cluster's `telemetry.evidenceUri`, if it is set
    no_evidence: bool = False
    require_evidence: bool = False  # exit 5 unless every change could be judged

    def __post_init__(self) -> None:
        if self.no_evidence and (self.require_evidence or self.evidence != AUTO):
            raise UsageError("--no-evidence contradicts --evidence and --require-evidence")
        if not self.evidence.strip():
            raise UsageError(
                "--evidence is empty",
                hint="check that the variable is set; pass a URI, auto, or --no-evidence",
            )


class MetricsRequest(Struct, frozen=True, kw_only=True):
    """The typed options about metrics."""

    address: str | None  # `HOST:PORT`; None = no metrics
    entity_labels: bool

    def __post_init__(self) -> None:
        if self.entity_labels and self.address is None:
            raise UsageError("--metrics-entity-labels needs --metrics-address")


class PostRequest(Struct, frozen=True, kw_only=True):
    """The typed options of a post: its document, its texts, and the pull request."""

    document: Path
    label: str
    title: str
    details_url: str
    artifact_url: str
    commit: str
    issue: bool
    required: bool
    api_url: str
    repo: str
    pull: int | None
    sha: str
    head_repo: str
    head_branch: str
    author: str

    def __post_init__(self) -> None:
        if self.head_repo and not self.sha:
            raise UsageError("--head-repo needs --sha, the commit in that repository")
        if self.sha and not self.head_repo and self.pull is None:
            raise UsageError(
                "--sha needs --pull or --head-repo: a commit may be in several repositories"
            )
