"""``kquota operator`` runs the Kubernetes operator in the foreground; ``release`` is a subcommand."""

import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from reconciler.base.installation import needs
from reconciler.cli.framework.commands import ExitCode, flag, group, option
from reconciler.cli.framework.console import Console, ProgressLine
from reconciler.cli.options.shared import DURATION, FILE, OptionPack, format_option
from reconciler.errors import UsageError

if TYPE_CHECKING:
    from reconciler.kube.configuration.operator_settings import OperatorSettings

HELP: Final = """Run the Kubernetes operator, which reconciles ClientQuota resources with Kafka until it is stopped.

One of several replicas leads, by a Lease; the others wait. Logs go to standard error, the audit log as JSON lines to
standard output. Usually the Helm chart starts it.

\b
Example:
  kquota operator --operator-namespace kafka-quotas --kubeconfig ~/.kube/config
  kquota operator release --all --operator-namespace kafka-quotas"""

RELEASE_HELP: Final = """Remove the operator's finalizer from every ClientQuota if no operator runs any more.

Quotas in Kafka stay as they are; the command does not connect to Kafka. The operator's records keep the applied limits
without a document, so that a later operator knows them. The command may be repeated. Stop the operator first.

\b
Example:
  kquota operator release --all --operator-namespace kafka-quotas
  kquota operator release --namespace payments --stop-deployment kquota"""

POD_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

_NAMESPACE: Final = option(
    "--namespace NAMESPACE",
    "Watch ClientQuotas in this namespace only; may be repeated  [default: all namespaces].",
    name="namespaces",
    multiple=True,
)
_PLACE: Final = (
    option(
        "--operator-namespace NAMESPACE",
        "Namespace of Lease, records and Secrets  [default: the pod's].",
    ),
    option(
        "--kubeconfig FILE",
        "Kubeconfig file  [default: as kubectl, or the pod's service account].",
        FILE,
    ),
)
_SCOPE: Final = (
    option("--operator-class NAME", "Serve only QuotaClusters of this class.", default=""),
    option("--quota-clusters FILE", "File of QuotaClusters, used instead of the API server.", FILE),
    flag(
        "--allow-references",
        "Allow custom resources to refer to files and variables of the operator.",
    ),
)
_SERVING: Final = (
    option("--leader-elect/--no-leader-elect", "Act only while holding a Lease.", default=True),
    option("--lease-name NAME", "Name of the Lease.", default="kquota-operator"),
    option(
        "--identity NAME",
        "Identity of this replica in Lease and events  [default: the pod's name].",
        default=None,
    ),
    option("--metrics-address HOST:PORT", "Address of probes and metrics.", default=":8080"),
    flag("--metrics-entity-labels", "Include names of entities in metrics."),
    option("--webhook-address HOST:PORT", "Serve the admission webhook."),
    option("--webhook-cert FILE", "PEM certificate chain of the webhook.", FILE),
    option("--webhook-key FILE", "PEM key of the webhook.", FILE),
    option(
        "--webhook-client-ca FILE",
        "PEM authorities of the callers: the webhook accepts only clients with a certificate"
        " of one of them  [default: every client]",
        FILE,
    ),
    option(
        "--deletion-timeout DURATION",
        "Longest time that a deletion waits for Kafka.",
        DURATION,
        default="10m",
    ),
    option(
        "--max-documents-per-namespace NUMBER",
        "Serve the oldest ClientQuotas of a namespace, up to this number.",
        click.IntRange(min=1),
        default=10_000,
    ),
    option(
        "--max-bytes-per-namespace BYTES",
        "Serve the oldest ClientQuotas of a namespace, up to this size.",
        click.IntRange(min=1),
        default=16 * 1024 * 1024,
    ),
)


def _settings(**option_values: Any) -> Callable[[], "OperatorSettings"]:  # noqa: ANN401 - click's values, by name
    """Return a factory of the settings; it is called inside the command, because it imports heavy modules."""

    def make() -> "OperatorSettings":
        from reconciler.kube.configuration.namespace_limits import NamespaceLimits
        from reconciler.kube.configuration.operator_settings import OperatorSettings

        option_values["namespaces"] = tuple(option_values["namespaces"])
        option_values["operator_namespace"] = operator_namespace(
            option_values["operator_namespace"]
        )
        option_values["identity"] = (
            option_values.get("identity") or os.environ.get("POD_NAME") or socket.gethostname()
        )
        if "max_documents_per_namespace" in option_values:
            option_values["namespace_limits"] = NamespaceLimits(
                documents=option_values.pop("max_documents_per_namespace"),
                size=option_values.pop("max_bytes_per_namespace"),
            )
        return OperatorSettings(**option_values)

    return make


def operator_namespace(configured: str | None) -> str:
    """Return the operator's namespace: the configured one, or the pod's.

    Raises:
        UsageError: It is not configured, and this is not a pod.
    """
    if configured:
        return configured
    pod_namespace = os.environ.get("POD_NAMESPACE", "")
    if not pod_namespace and POD_NAMESPACE.is_file():
        pod_namespace = POD_NAMESPACE.read_text("utf-8").strip()
    if not pod_namespace:
        raise UsageError(
            "--operator-namespace is required outside of a pod: the namespace of the operator's records"
        )
    return pod_namespace


@group(help=HELP, invoke_without_command=True)
@OptionPack("settings", _settings, (_NAMESPACE, *_PLACE, *_SCOPE, *_SERVING))
@option("--log-format", "Log format.", click.Choice(("text", "json")), default="text")
@option("--log-level", "Log level.", click.Choice(("info", "debug")), default="info")
@click.pass_context
def operator(
    context: click.Context,
    *,
    settings: Callable[[], "OperatorSettings"],
    log_format: str,
    log_level: str,
) -> ExitCode:
    """Run until stopped, then exit 0."""
    if context.invoked_subcommand is not None:
        return ExitCode.DONE
    from reconciler.app.event_loop import run

    needs("operator", "kquota operator")
    operator_settings = settings()

    from reconciler.cli.framework.logs import collect_as_usual, log_to_stderr
    from reconciler.kube.run.operator import run as operate

    log_to_stderr(log_format, level=logging.getLevelNamesMapping()[log_level.upper()])
    collect_as_usual()
    run(operate(operator_settings))
    return ExitCode.DONE


@operator.command("release", help=RELEASE_HELP)
@OptionPack("settings", _settings, (_NAMESPACE, *_PLACE))
@flag("--all", "Act in all namespaces.", name="everywhere")
@option("--stop-deployment NAME", "Scale this Deployment in the operator's namespace to 0 first.")
@option(
    "--timeout DURATION",
    "Longest time to wait until its pods have ended.",
    DURATION,
    default="150s",
)
@format_option("text", "json")
@click.pass_obj
def release(
    console: Console,
    *,
    settings: Callable[[], "OperatorSettings"],
    everywhere: bool,
    stop_deployment: str | None,
    timeout: float,
    output: str,
) -> ExitCode:
    """Check the options, then release."""
    needs("operator", "kquota operator release")
    operator_settings = settings()
    if everywhere == bool(operator_settings.namespaces):
        raise UsageError("pass --all, or --namespace for each namespace")

    from reconciler.app.event_loop import run
    from reconciler.kube.records.release import stop_and_release

    with ProgressLine(console) as progress:
        released = run(
            stop_and_release(
                operator_settings,
                deployment=stop_deployment,
                longest=timeout,
                notices=console,
                progress=progress,
            )
        )
    for document, reason in sorted(released.unrecorded.items()):
        console.warning(
            f"{document}: its applied limits could not be recorded as limits without a document: {reason}"
        )
    for document, reason in sorted(released.failed.items()):
        console.error(f"{document}: {reason}")
    if output == "json":
        console.document(
            {
                "kind": "kquota-release",
                "format": 1,
                "documents": list(released.documents),
                "orphanedPairs": released.pairs,
                "failed": dict(released.failed),
                "unkept": dict(released.unrecorded),
            }
        )
    elif released.documents:
        console.fact(
            f"{len(released.documents):,} documents released, {released.pairs:,} quota keys recorded without a document;"
            " their quotas stay in Kafka"
        )
    else:
        console.fact("nothing to release")
    return ExitCode.ERROR if released.failed else ExitCode.DONE
