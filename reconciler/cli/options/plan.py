"""Options shared by commands with plans: policy and guards, records, recorded use, further clients.

What decides which plan a command makes is also kept as words of a command line: a saved plan has them, and is recomputed
with them.
"""

import shlex
from collections.abc import Sequence
from typing import Final

import click
from msgspec.structs import replace

from reconciler.app.requests import AUTO, EvidenceRequest, PlanRequest
from reconciler.cli.framework.commands import flag, option
from reconciler.cli.options.shared import ENTITY, FILE, OptionPack
from reconciler.errors import ConfigError, PlanRefused, UsageError
from reconciler.quota.policy import Policy

POLICIES: Final = tuple(map(str, Policy))
VALIDATIONS: Final = ("auto", "broker", "sandbox", "none")

validate_option: Final = option(
    "--validate",
    "What validates the plan: the broker, the rules of the sandbox, or nothing; auto uses the broker if the principal has the right.",
    click.Choice(VALIDATIONS),
    default="auto",
)
"""``--validate`` alone, for commands without the options of guards."""

plan_options: Final = OptionPack(
    "request",
    PlanRequest,
    (
        flag("--no-inventory", "Do not use an inventory; treat every live quota as unmanaged."),
        option(
            "--policy",
            "Ownership policy; may only be stricter than the configured one.",
            click.Choice(POLICIES),
        ),
        option("--confirm-sync CLUSTER_ID", "Confirm policy Sync for the cluster with this id."),
        validate_option,
        option(
            "--only ENTITY", "Plan for this entity only; may be repeated.", ENTITY, multiple=True
        ),
        flag(
            "--correct-drift",
            "Also write declared values over values that were changed outside kquota.",
        ),
        flag("--force", "Also remove managed limits that were changed outside kquota."),
        option("--max-removals N", "Maximum number of removals in one plan.", click.IntRange(0)),
        option(
            "--max-removed-percent P",
            "Maximum removals in percent of the owned limits.",
            click.FloatRange(0, 100),
        ),
        option(
            "--max-change-factor F",
            "Largest factor by which a limit may change, up or down.",
            click.FloatRange(1),
        ),
        flag("--allow-newly-unlimited", "Allow changes that leave clients without any limit."),
        flag("--allow-small-values", "Allow values that look like a wrong unit."),
        flag(
            "--allow-defaults",
            "Allow changes of default entities, which affect every client without a more specific quota.",
        ),
        flag("--allow-empty", "Allow a plan without any document although limits are owned."),
    ),
)
"""The options of :class:`PlanRequest`, passed as ``request``."""

evidence_options: Final = OptionPack(
    "evidence_request",
    EvidenceRequest,
    (
        option(
            "--evidence URI",
            "Previews of recorded use: a folder, s3://, gs:// or az://; auto (default) = the cluster's telemetry.evidenceUri.",
            default=AUTO,
            show_default=False,
        ),
        flag("--no-evidence", "Do not use recorded evidence."),
        flag("--require-evidence", "Exit 5 unless there is evidence for every change."),
    ),
)
"""The options of :class:`EvidenceRequest`, passed as ``evidence_request``."""

offline_option: Final = flag("--offline", "Connect to no cluster.")
snapshot_option: Final = option(
    "--snapshot FILE", "Snapshot to plan against (requires --offline).", FILE
)

principals_option: Final = option(
    "--principals FILE",
    "CSV file of further clients to assess, with the columns user, client_id and ip; - is standard input.",
)


_GUARDS: Final = ("max", "allow")
"""Beginnings of the names of options that can open a guard."""


def saved_request(
    words: Sequence[str], typed: PlanRequest, *, location: str, command: str, is_asked: bool
) -> PlanRequest:
    """Return the request of a saved plan.

    A file opens no guard by itself: where no person is asked, the options that open one are typed again.

    Args:
        words: The selection in the file.
        typed: What was typed with the file; what validates and records the plan is typed for each run.
        location: Name of the file.
        command: What applies it to its cluster, before the words.
        is_asked: Whether a person confirms the plan.

    Raises:
        ConfigError: The words are no selection.
        UsageError: Another selection was typed.
        PlanRefused: The selection opens a guard, no person is asked, and the options were not typed.
    """
    if typed.selection and typed.selection != tuple(words):
        raise UsageError(
            f"{location} was made with {shlex.join(words) or 'no path and no option'}, not with {shlex.join(typed.selection)}",
            hint="type the same paths and options, or none",
        )
    try:
        request: PlanRequest = _parser.main(list(words), standalone_mode=False, prog_name="plan")
        request = replace(
            request, validate=typed.validate, take_over=typed.take_over, pace=typed.pace
        )
    except (click.ClickException, UsageError) as error:
        raise ConfigError(
            f"its selection cannot be read: {error}", location=location, hint="plan again"
        ) from error
    guards = [w for w in request.selection if w.startswith("--") and w[2:].startswith(_GUARDS)]
    if guards and not typed.selection and not is_asked:
        raise PlanRefused(
            f"the saved plan has options of guards: {' '.join(guards)}",
            hint=f"to confirm them without a question: {command} {shlex.join(words)}",
        )
    return request


@click.command(add_help_option=False)
@click.argument("paths", nargs=-1)
@plan_options
def _parser(paths: tuple[str, ...], request: PlanRequest) -> PlanRequest:
    return replace(request, paths=paths)
