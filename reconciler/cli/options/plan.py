"""Options shared by commands with plans: policy and guards, records, recorded use, further clients."""

from typing import Final

import click

from reconciler.app.requests import AUTO, EvidenceRequest, PlanLimits, RecordSource
from reconciler.cli.framework.commands import flag, option
from reconciler.cli.options.shared import FILE, OptionPack
from reconciler.cli.options.value_types import ENTITY

POLICIES: Final = ("Observe", "CreateOnly", "Upsert", "Sync")
VALIDATIONS: Final = ("auto", "broker", "sandbox", "none")

validate_option: Final = option(
    "--validate",
    "What validates the plan: the broker, the rules of the sandbox, or nothing; auto uses the broker if the principal has the right.",
    click.Choice(VALIDATIONS),
    default="auto",
)
"""``--validate`` alone, for commands without the options of guards."""

limit_options: Final = OptionPack(
    "limits",
    PlanLimits,
    (
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
"""The options of :class:`PlanLimits`, passed as ``limits``."""

source_options: Final = OptionPack(
    "sources",
    RecordSource,
    (flag("--no-inventory", "Do not use an inventory; treat every live quota as unmanaged."),),
)
"""The options of :class:`RecordSource`, passed as ``sources``."""

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
