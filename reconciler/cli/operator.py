"""``kquota operator``: the Kubernetes operator in the foreground; ``release`` and ``check`` beside it."""

import gc
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from reconciler.cli.commands import group
from reconciler.cli.console import Console
from reconciler.cli.exits import Exit
from reconciler.cli.options import FILE, format_option, packed
from reconciler.cli.values import Duration
from reconciler.errors import UsageError

if TYPE_CHECKING:
    from reconciler.kube.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])

HELP: Final = """The Kubernetes operator: ClientQuota resources reconciled with Kafka, until it is stopped.

One of several replicas leads, by a Lease; the others stand by. Logs go to standard error, the audit log as JSON lines to
standard output. Usually the Helm chart starts it.

\b
Example:
  kquota operator --operator-namespace kafka-quotas --kubeconfig ~/.kube/config
  kquota operator check
  kquota operator release --all --operator-namespace kafka-quotas"""

RELEASE_HELP: Final = """Take the operator's finalizer off every ClientQuota, where no operator will do it any more.

Quotas in Kafka stay as they are; Kafka is not asked. What the documents applied is kept in the operator's records as
orphaned, so that an operator that comes back knows whose it was. It may be run again. Stop the operator first.

\b
Example:
  kquota operator release --all --operator-namespace kafka-quotas
  kquota operator release --namespace payments --stop-deployment kquota"""

CHECK_HELP: Final = """Whether an operator could do its work: its rights in Kubernetes, then doctor's questions for each QuotaCluster.

Nothing is changed. Exit code 1 if something does not work.

\b
Example:
  kquota operator check --operator-namespace kafka-quotas"""

USUAL_COLLECTION: Final = 700
"""CPython's own threshold of the cyclic collector: unlike other commands, this one runs for days."""

POD_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

_NAMESPACE: Final = click.option(
    "--namespace", "namespaces", multiple=True, metavar="NAMESPACE",
    help="Watch ClientQuotas only here; may be repeated  [default: everywhere]",
)  # fmt: skip
_PLACE: Final = (
    click.option("--operator-namespace", metavar="NAMESPACE",
                 help="Where Lease, records and Secrets are  [default: the pod's]"),
    click.option("--kubeconfig", type=FILE, metavar="FILE",
                 help="How to reach the API server  [default: as kubectl, or the pod's account]"),
)  # fmt: skip
_SCOPE: Final = (
    click.option("--operator-class", default="", metavar="NAME",
                 help="Serve only QuotaClusters of this class."),
    click.option("--quota-clusters", type=FILE, metavar="FILE",
                 help="QuotaClusters from a file instead of the API server."),
    click.option("--allow-references", is_flag=True,
                 help="Custom resources may refer to files and variables of the operator."),
)  # fmt: skip
_SERVING: Final = (
    click.option("--leader-elect/--no-leader-elect", default=True, show_default=True,
                 help="Act only while holding a Lease."),
    click.option("--lease-name", default="kquota-operator", show_default=True, metavar="NAME",
                 help="Its name."),
    click.option("--identity", default=None, metavar="NAME",
                 help="Who this is, in Lease and events  [default: the pod's name]"),
    click.option("--metrics-address", default=":8080", show_default=True, metavar="HOST:PORT",
                 help="Probes and metrics."),
    click.option("--metrics-entity-labels", is_flag=True, help="Metrics may name entities."),
    click.option("--webhook-address", metavar="HOST:PORT", help="Serve the admission webhook."),
    click.option("--webhook-cert", type=FILE, metavar="FILE", help="Its PEM certificate chain."),
    click.option("--webhook-key", type=FILE, metavar="FILE", help="Its PEM key."),
    click.option("--webhook-client-ca", type=FILE, metavar="FILE",
                 help="PEM authorities of the callers: the webhook talks only to clients that show a certificate"
                      " of one of them  [default: to every client]"),
    click.option("--deletion-timeout", type=Duration(), default="10m", show_default=True,
                 metavar="DURATION", help="How long a deletion waits for Kafka."),
    click.option("--max-documents-per-namespace", type=click.IntRange(min=1), default=10_000, show_default=True,
                 metavar="NUMBER", help="Serve the oldest ClientQuotas of a namespace, up to this number."),
    click.option("--max-bytes-per-namespace", type=click.IntRange(min=1), default=16 * 1024 * 1024, show_default=True,
                 metavar="BYTES", help="Serve the oldest ClientQuotas of a namespace, up to this size."),
)  # fmt: skip


def _settings(**given: Any) -> Callable[[], "Settings"]:  # noqa: ANN401 - click's values, by name
    """The settings, made inside the command: only then are the heavy modules imported."""

    def make() -> "Settings":
        from reconciler.kube.namespace_limits import NamespaceLimits
        from reconciler.kube.settings import Settings

        given["namespaces"] = tuple(given["namespaces"])
        given["operator_namespace"] = operator_namespace(given["operator_namespace"])
        given["identity"] = (
            given.get("identity") or os.environ.get("POD_NAME") or socket.gethostname()
        )
        if "max_documents_per_namespace" in given:
            given["namespace_limits"] = NamespaceLimits(
                documents=given.pop("max_documents_per_namespace"),
                size=given.pop("max_bytes_per_namespace"),
            )
        return Settings(**given)

    return make


def _options(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """The options, handed to the command as ``settings``."""
    names: list[str] = []
    for one in options:
        probe = one(lambda: None)
        names += [parameter.name for parameter in probe.__click_params__]
    return packed("settings", _settings, names, options)


def operator_namespace(given: str | None) -> str:
    """The operator's own namespace: as typed, or the pod's.

    Raises:
        UsageError: Nothing says which.
    """
    if given:
        return given
    named = os.environ.get("POD_NAMESPACE", "")
    if not named and POD_NAMESPACE.is_file():
        named = POD_NAMESPACE.read_text("utf-8").strip()
    if not named:
        raise UsageError(
            "outside a pod, --operator-namespace must say where the operator's records are"
        )
    return named


@group(help=HELP, invoke_without_command=True)
@_options(_NAMESPACE, *_PLACE, *_SCOPE, *_SERVING)
@click.option("--log-format", type=click.Choice(("text", "json")), default="text",
              show_default=True, help="How log lines look.")  # fmt: skip
@click.option("--log-level", type=click.Choice(("info", "debug")), default="info",
              show_default=True, help="How much is told.")  # fmt: skip
@click.pass_context
def operator(
    context: click.Context,
    *,
    settings: Callable[[], "Settings"],
    log_format: str,
    log_level: str,
) -> Exit:
    """Serve until somebody stops it; being stopped is what it is for, so that exits 0."""
    if context.invoked_subcommand is not None:
        return Exit.DONE
    from reconciler.cli.extras import needs
    from reconciler.cli.running import run

    needs("operator", "kquota operator")
    chosen = settings()
    if chosen.kubeconfig is not None:
        # Kopf looks for its own way to the API server, and only there.
        os.environ["KUBECONFIG"] = str(chosen.kubeconfig.resolve())

    from reconciler.cli.logs import log_to_stderr
    from reconciler.kube.operator import run as operate

    log_to_stderr(log_format, level=logging.getLevelNamesMapping()[log_level.upper()])
    gc.set_threshold(USUAL_COLLECTION)
    run(operate(chosen))
    return Exit.DONE


@operator.command("release", help=RELEASE_HELP)
@_options(_NAMESPACE, *_PLACE)
@click.option("--all", "everywhere", is_flag=True, help="In all namespaces.")
@click.option("--stop-deployment", metavar="NAME",
              help="First scale this Deployment of the operator's namespace to 0.")  # fmt: skip
@click.option("--timeout", type=Duration(), default="150s", show_default=True, metavar="DURATION",
              help="How long to wait for its pods to end.")  # fmt: skip
@format_option("text", "json")
@click.pass_obj
def release(
    console: Console,
    *,
    settings: Callable[[], "Settings"],
    everywhere: bool,
    stop_deployment: str | None,
    timeout: float,
    output: str,
) -> Exit:
    """Check what was typed, then release."""
    from reconciler.cli.extras import needs

    needs("operator", "kquota operator release")
    chosen = settings()
    if everywhere == bool(chosen.namespaces):
        raise UsageError("say --all, or name each --namespace")

    from reconciler.cli.releasing import Wanted, carry_out

    wanted = Wanted(settings=chosen, deployment=stop_deployment, timeout=timeout, output=output)
    return carry_out(console, wanted)


@operator.command("check", help=CHECK_HELP)
@_options(_NAMESPACE, *_PLACE, *_SCOPE, *_SERVING[:3])
@click.option("--timeout", type=Duration(), default="10s", show_default=True, metavar="DURATION",
              help="For one question to a cluster.")  # fmt: skip
@format_option("text", "json")
@click.pass_obj
def check(
    console: Console, *, settings: Callable[[], "Settings"], timeout: float, output: str
) -> Exit:
    """Ask, print, and say whether something failed."""
    from reconciler.cli.extras import needs

    needs("operator", "kquota operator check")
    from reconciler.cli.operator_checks import check_all

    return check_all(console, settings(), timeout=timeout, output=output)
