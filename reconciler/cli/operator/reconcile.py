"""``kquota reconcile``: requests a reconciliation of one resource, waits until it is handled, and prints conditions."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from reconciler.cli.framework.commands import command, flag, option
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.options.shared import FILE, format_option
from reconciler.cli.options.value_types import DURATION

if TYPE_CHECKING:
    from reconciler.kube.api.reconcile_request import RequestStatus
    from reconciler.render.json_values import Json

HELP: Final = """Ask the operator to reconcile a ClientQuota (or, with --cluster, a whole QuotaCluster) now.

With --wait the command returns when the requested reconciliation has ended, and prints the conditions.

\b
Exit codes with --wait:
  0  ready
  1  not handled in time, or not ready for another reason than those of 3
  2  ready and drifted (with --detailed-exitcode)
  3  a guard, the policy, a scope or a missing grant refuses

\b
Example:
  kquota reconcile alice-checkout --namespace payments --wait
  kquota reconcile prod --cluster --wait --timeout 5m"""


_REFUSED: Final = frozenset({"GuardRefused", "TakeoverPending", "NotGranted", "OutOfScope"})
"""Reasons of ``Ready`` that refuse what a document asks for."""


@command(help=HELP)
@click.argument("name")
@option(
    "--namespace -n NAMESPACE",
    "Namespace of the ClientQuota  [default: that of the kubeconfig's context].",
)
@flag("--cluster", "NAME is a QuotaCluster.")
@flag("--wait", "Wait until the request is handled.")
@option("--timeout DURATION", "Longest time to wait.", DURATION, default="2m")
@flag("--detailed-exitcode", "Exit 2 if the resource has drifted.")
@option("--kubeconfig FILE", "Kubeconfig file  [default: as kubectl].", FILE)
@format_option("text", "json")
@click.pass_obj
def reconcile(
    console: Console,
    *,
    name: str,
    namespace: str | None,
    cluster: bool,
    wait: bool,
    timeout: float,
    detailed_exitcode: bool,
    kubeconfig: Path | None,
    output: str,
) -> ExitCode:
    """Request a reconciliation, wait for it, print the conditions."""
    from reconciler.base.installation import needs
    from reconciler.errors import UsageError

    needs("operator", "kquota reconcile")
    if cluster and namespace is not None:
        raise UsageError(
            "--namespace cannot be combined with --cluster: a QuotaCluster has no namespace"
        )
    if detailed_exitcode and not wait:
        raise UsageError("--detailed-exitcode needs --wait")

    from reconciler.app.event_loop import run
    from reconciler.base.clock import SystemClock
    from reconciler.kube.api import reconcile_request, resource_paths
    from reconciler.kube.api.client import KubernetesApi

    resource = resource_paths.QUOTA_CLUSTERS if cluster else resource_paths.CLIENT_QUOTAS
    clock = SystemClock()

    async def work() -> "tuple[str, RequestStatus | None]":
        async with await KubernetesApi.connect(kubeconfig, clock=clock) as api:
            resource_namespace = None if cluster else namespace or api.namespace
            subject = name if resource_namespace is None else f"{resource_namespace}/{name}"
            value = await reconcile_request.request(
                api, resource, resource_namespace, name, clock=clock
            )
            console.note(f"{subject}: reconciliation requested")
            if not wait:
                return subject, None
            return subject, await reconcile_request.wait(
                api, resource, resource_namespace, name, value=value, seconds=timeout, clock=clock
            )

    subject, status = run(work())
    if status is None:
        return ExitCode.DONE
    _show(console, subject, status, output)
    return _exit(console, status, timeout, detailed=detailed_exitcode)


def _exit(console: Console, status: "RequestStatus", timeout: float, *, detailed: bool) -> ExitCode:
    if not status.handled:
        console.error(f"the operator did not handle the request within {timeout:g} s")
        console.hint(
            "run kubectl get lease to see the leader, and kquota operator check for problems"
        )
        return ExitCode.ERROR
    from reconciler.kube.api.custom_resources import condition_of, parsed

    resource_status = parsed(status.obj).status
    ready = condition_of(resource_status, "Ready")
    if ready.get("status") != "True":
        return ExitCode.REFUSED if ready.get("reason") in _REFUSED else ExitCode.ERROR
    has_drifted = condition_of(resource_status, "Drifted").get("status") == "True"
    return ExitCode.CHANGES if detailed and has_drifted else ExitCode.DONE


def _show(console: Console, subject: str, status: "RequestStatus", output: str) -> None:
    from reconciler.base.escaping import escaped

    if output == "json":
        conditions: list[Json] = [
            {
                key: str(condition.get(key, ""))
                for key in ("type", "status", "reason", "message", "lastTransitionTime")
            }
            for condition in status.conditions
        ]
        console.document(
            {
                "kind": "kquota-reconcile",
                "format": 1,
                "resource": subject,
                "handled": status.handled,
                "conditions": conditions,
            }
        )
        return

    from reconciler.render.table import table

    rows = [
        [escaped(str(condition.get(key, ""))) for key in ("type", "status", "reason", "message")]
        for condition in status.conditions
    ]
    heads = ("CONDITION", "STATUS", "REASON", "MESSAGE")
    console.fact(escaped(subject))
    if rows:
        console.fact("\n".join(table(rows, heads=heads, style=console.style)))
    else:
        console.fact("no conditions yet")
