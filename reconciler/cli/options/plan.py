"""Options that commands about plans share: limits of a plan, records, recorded use, further clients."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from reconciler.app.requests import AUTO, EvidenceRequest, PlanLimits, RecordSource
from reconciler.cli.options.shared import packed
from reconciler.cli.options.value_types import EntityParameter

F = TypeVar("F", bound=Callable[..., Any])

POLICIES: Final = ("Observe", "CreateOnly", "Upsert", "Sync")
VALIDATIONS: Final = ("auto", "broker", "sandbox", "none")

_LIMITS: Final = (
    (
        "policy",
        click.option(
            "--policy",
            type=click.Choice(POLICIES),
            help="Ownership policy; may only be stricter than the configured one.",
        ),
    ),
    (
        "confirm_sync",
        click.option(
            "--confirm-sync",
            metavar="CLUSTER_ID",
            help="Confirm policy Sync for the cluster with this id.",
        ),
    ),
    (
        "validate",
        click.option(
            "--validate",
            type=click.Choice(VALIDATIONS),
            default="auto",
            show_default=True,
            help="What validates the plan: the broker, the rules of the sandbox, or nothing; auto uses the broker if the principal has the right.",
        ),
    ),
    (
        "only",
        click.option(
            "--only",
            type=EntityParameter(),
            multiple=True,
            metavar="ENTITY",
            help="Plan for this entity only; may be repeated.",
        ),
    ),
    (
        "correct_drift",
        click.option(
            "--correct-drift",
            is_flag=True,
            help="Also write declared values over values that were changed outside kquota.",
        ),
    ),
    (
        "force",
        click.option(
            "--force", is_flag=True, help="Also remove own limits that were changed outside kquota."
        ),
    ),
    (
        "max_removals",
        click.option(
            "--max-removals",
            type=click.IntRange(0),
            metavar="N",
            help="Maximum number of removals in one plan.",
        ),
    ),
    (
        "max_removed_percent",
        click.option(
            "--max-removed-percent",
            type=click.FloatRange(0, 100),
            metavar="P",
            help="Maximum removals in percent of the owned limits.",
        ),
    ),
    (
        "max_change_factor",
        click.option(
            "--max-change-factor",
            type=click.FloatRange(1),
            metavar="F",
            help="Largest factor by which a limit may change, up or down.",
        ),
    ),
    (
        "max_exception_factor",
        click.option(
            "--max-exception-factor",
            type=click.FloatRange(1),
            metavar="F",
            help="Largest factor above the default that a client may get when it is named for the first time.",
        ),
    ),
    (
        "allow_newly_unlimited",
        click.option(
            "--allow-newly-unlimited",
            is_flag=True,
            help="Allow changes that leave clients without any limit.",
        ),
    ),
    (
        "allow_small_values",
        click.option(
            "--allow-small-values", is_flag=True, help="Allow values that look like a wrong unit."
        ),
    ),
    (
        "allow_defaults",
        click.option(
            "--allow-defaults",
            is_flag=True,
            help="Allow changes of default entities, which affect every client without a more specific quota.",
        ),
    ),
    (
        "allow_empty",
        click.option(
            "--allow-empty",
            is_flag=True,
            help="Allow a plan without any document although limits are owned.",
        ),
    ),
)


def validate_option(function: F) -> F:
    """``--validate`` alone, for commands that pass the guards."""
    return dict(_LIMITS)["validate"](function)


def limit_options(function: F) -> F:
    """The options of :class:`PlanLimits`, handed over as ``limits``."""
    decorate: Callable[[F], F] = packed(
        "limits",
        PlanLimits,
        [name for name, _ in _LIMITS],
        [option for _, option in _LIMITS],
    )
    return decorate(function)


_SOURCES: Final = (
    (
        "since",
        click.option(
            "--since",
            metavar="REV",
            help="Treat the manifests at this revision as last applied if there is no inventory: HEAD, HEAD~N, a full commit id or a full ref name.",
        ),
    ),
    (
        "no_inventory",
        click.option(
            "--no-inventory",
            is_flag=True,
            help="Do not use an inventory; treat every live quota as unmanaged.",
        ),
    ),
)


def source_options(function: F) -> F:
    """The options of :class:`RecordSource`, handed over as ``sources``."""
    decorate: Callable[[F], F] = packed(
        "sources",
        RecordSource,
        [name for name, _ in _SOURCES],
        [option for _, option in _SOURCES],
    )
    return decorate(function)


_EVIDENCE: Final = (
    (
        "evidence",
        click.option(
            "--evidence",
            metavar="URI",
            default=AUTO,
            help="Published evidence of use: a folder, s3://, gs://, az://, https://; auto (default) = the cluster's telemetry.evidenceUri.",
        ),
    ),
    (
        "no_evidence",
        click.option("--no-evidence", is_flag=True, help="Do not use recorded evidence."),
    ),
    (
        "require_evidence",
        click.option(
            "--require-evidence",
            is_flag=True,
            help="Exit 5 unless there is evidence for every change.",
        ),
    ),
)


def evidence_options(function: F) -> F:
    """The options of :class:`EvidenceRequest`, handed over as ``asking``."""
    decorate: Callable[[F], F] = packed(
        "asking",
        EvidenceRequest,
        [name for name, _ in _EVIDENCE],
        [option for _, option in _EVIDENCE],
    )
    return decorate(function)


def principals_option(function: F) -> F:
    """``--principals``, handed over as ``principals``."""
    return click.option(
        "--principals",
        metavar="FILE",
        help="CSV file of further clients to assess, with the columns user, client_id and ip; - is standard input.",
    )(function)
