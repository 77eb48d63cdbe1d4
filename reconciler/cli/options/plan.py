"""Options shared by commands with plans: policy and guards, records, recorded use, further clients."""

from typing import Final

import click

from reconciler.app.requests import AUTO, EvidenceRequest, PlanLimits, RecordSource
from reconciler.cli.options.shared import FILE, OptionPack
from reconciler.cli.options.value_types import ENTITY

POLICIES: Final = ("Observe", "CreateOnly", "Upsert", "Sync")
VALIDATIONS: Final = ("auto", "broker", "sandbox", "none")

validate_option: Final = click.option(
    "--validate",
    type=click.Choice(VALIDATIONS),
    default="auto",
    show_default=True,
    help="What validates the plan: the broker, the rules of the sandbox, or nothing; auto uses the broker if the principal has the right.",
)
"""``--validate`` alone, for commands to which guards do not apply."""

limit_options: Final = OptionPack(
    "limits",
    PlanLimits,
    (
        click.option(
            "--policy",
            type=click.Choice(POLICIES),
            help="Ownership policy; may only be stricter than the configured one.",
        ),
        click.option(
            "--confirm-sync",
            metavar="CLUSTER_ID",
            help="Confirm policy Sync for the cluster with this id.",
        ),
        validate_option,
        click.option(
            "--only",
            type=ENTITY,
            multiple=True,
            metavar="ENTITY",
            help="Plan for this entity only; may be repeated.",
        ),
        click.option(
            "--correct-drift",
            is_flag=True,
            help="Also write declared values over values that were changed outside kquota.",
        ),
        click.option(
            "--force",
            is_flag=True,
            help="Also remove managed limits that were changed outside kquota.",
        ),
        click.option(
            "--max-removals",
            type=click.IntRange(0),
            metavar="N",
            help="Maximum number of removals in one plan.",
        ),
        click.option(
            "--max-removed-percent",
            type=click.FloatRange(0, 100),
            metavar="P",
            help="Maximum removals in percent of the owned limits.",
        ),
        click.option(
            "--max-change-factor",
            type=click.FloatRange(1),
            metavar="F",
            help="Largest factor by which a limit may change, up or down.",
        ),
        click.option(
            "--max-exception-factor",
            type=click.FloatRange(1),
            metavar="F",
            help="Largest factor above the default for the first own limit of a client.",
        ),
        click.option(
            "--allow-newly-unlimited",
            is_flag=True,
            help="Allow changes that leave clients without any limit.",
        ),
        click.option(
            "--allow-small-values", is_flag=True, help="Allow values that look like a wrong unit."
        ),
        click.option(
            "--allow-defaults",
            is_flag=True,
            help="Allow changes of default entities, which affect every client without a more specific quota.",
        ),
        click.option(
            "--allow-empty",
            is_flag=True,
            help="Allow a plan without any document although limits are owned.",
        ),
    ),
)
"""The options of :class:`PlanLimits`, passed as ``limits``."""

source_options: Final = OptionPack(
    "sources",
    RecordSource,
    (
        click.option(
            "--since",
            metavar="REV",
            help="Treat the manifests at this revision as last applied if there is no inventory: HEAD, HEAD~N, a full commit id or a full ref name.",
        ),
        click.option(
            "--no-inventory",
            is_flag=True,
            help="Do not use an inventory; treat every live quota as unmanaged.",
        ),
    ),
)
"""The options of :class:`RecordSource`, passed as ``sources``."""

evidence_options: Final = OptionPack(
    "evidence_request",
    EvidenceRequest,
    (
        click.option(
            "--evidence",
            metavar="URI",
            default=AUTO,
            help="Published evidence of use: a folder, s3://, gs://, az://, https://; auto (default) = the cluster's telemetry.evidenceUri.",
        ),
        click.option("--no-evidence", is_flag=True, help="Do not use recorded evidence."),
        click.option(
            "--require-evidence",
            is_flag=True,
            help="Exit 5 unless there is evidence for every change.",
        ),
    ),
)
"""The options of :class:`EvidenceRequest`, passed as ``evidence_request``."""

offline_option: Final = click.option("--offline", is_flag=True, help="Connect to no cluster.")
snapshot_option: Final = click.option(
    "--snapshot", type=FILE, metavar="FILE", help="Snapshot to plan against (requires --offline)."
)

principals_option: Final = click.option(
    "--principals",
    metavar="FILE",
    help="CSV file of further clients to assess, with the columns user, client_id and ip; - is standard input.",
)
