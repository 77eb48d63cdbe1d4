"""``kquota reconcile``: ask the operator for a pass over one resource, wait until it was handled, and say how it stands."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from reconciler.cli.commands import command
from reconciler.cli.console import Console
from reconciler.cli.exits import Exit
from reconciler.cli.options import FILE, format_option
from reconciler.cli.values import Duration

if TYPE_CHECKING:
    from reconciler.kube.asking import Handled
    from reconciler.render.documents import Json

HELP: Final = """Ask the operator to reconcile a ClientQuota (or, with --cluster, a whole QuotaCluster) now.

With --wait the command returns when the requested reconciliation has ended, and prints the conditions.

\b
Exit codes with --wait:
  0  ready
  1  not ready, or not handled in time
  2  ready and drifted (with --detailed-exitcode)
  3  a guard, the policy or a missing grant refuses

\b
Example:
  kquota reconcile alice-checkout --namespace payments --wait
  kquota reconcile prod --cluster --wait --timeout 5m"""


_REFUSED: Final = frozenset({"GuardRefused", "TakeoverPending", "NotGranted", "OutOfScope"})
"""Reasons that are a refusal of ours, as a plan of the command line would give them."""


@command(help=HELP)
@click.argument("name")
@click.option("--namespace", "-n", metavar="NAMESPACE",
              help="Namespace of the ClientQuota  [default: that of the kubeconfig's context].")  # fmt: skip
@click.option("--cluster", is_flag=True, help="NAME is a QuotaCluster.")
@click.option("--wait", is_flag=True, help="Wait until the request is handled.")
@click.option("--timeout", type=Duration(), default="2m", show_default=True, metavar="DURATION",
              help="Longest time to wait.")  # fmt: skip
@click.option("--detailed-exitcode", is_flag=True, help="Exit 2 if the resource has drifted.")
@click.option("--kubeconfig", type=FILE, metavar="FILE",
              help="Kubeconfig file  [default: as kubectl].")  # fmt: skip
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
) -> Exit:
    """Request, wait, print."""
    from reconciler.cli.extras import needs
    from reconciler.errors import UsageError

    needs("operator", "kquota reconcile")
    if cluster and namespace is not None:
        raise UsageError("--namespace is about a ClientQuota; a QuotaCluster has none")
    if detailed_exitcode and not wait:
        raise UsageError("--detailed-exitcode needs --wait")

    from reconciler.cli.running import run
    from reconciler.client.clock import SystemClock
    from reconciler.kube import asking, served
    from reconciler.kube.api import Api

    resource = served.QUOTA_CLUSTERS if cluster else served.CLIENT_QUOTAS
    clock = SystemClock()

    async def work() -> "tuple[str, Handled | None]":
        async with await Api.connect(kubeconfig, clock=clock) as api:
            where = None if cluster else namespace or api.namespace
            about = name if where is None else f"{where}/{name}"
            value = await asking.request(api, resource, where, name, clock=clock)
            console.note(f"{about}: asked for a pass")
            if not wait:
                return about, None
            return about, await asking.wait(
                api, resource, where, name, value=value, seconds=timeout, clock=clock
            )

    about, found = run(work())
    if found is None:
        return Exit.DONE
    _show(console, about, found, output)
    return _exit(console, found, timeout, detailed=detailed_exitcode)


def _exit(console: Console, found: "Handled", timeout: float, *, detailed: bool) -> Exit:
    if not found.handled:
        console.error(f"the operator did not handle the request within {timeout:g} s")
        console.hint("kubectl get lease shows who leads; kquota operator check what may be wrong")
        return Exit.ERROR
    ready = found.condition("Ready")
    if ready.get("status") != "True":
        return Exit.REFUSED if ready.get("reason") in _REFUSED else Exit.ERROR
    return Exit.CHANGES if detailed and found.holds("Drifted") else Exit.DONE


def _show(console: Console, about: str, found: "Handled", output: str) -> None:
    from reconciler.render.names import escaped

    if output == "json":
        from reconciler.render.documents import dump

        conditions: list[Json] = [
            {
                key: str(one.get(key, ""))
                for key in ("type", "status", "reason", "message", "lastTransitionTime")
            }
            for one in found.conditions
        ]
        console.fact(
            dump(
                {
                    "kind": "kquota-reconcile",
                    "format": 1,
                    "resource": about,
                    "handled": found.handled,
                    "conditions": conditions,
                }
            )
        )
        return

    from reconciler.cli.showing import style_of
    from reconciler.render.table import table

    rows = [
        [escaped(str(one.get(key, ""))) for key in ("type", "status", "reason", "message")]
        for one in found.conditions
    ]
    heads = ("CONDITION", "STATUS", "REASON", "MESSAGE")
    console.fact(escaped(about))
    if rows:
        console.fact("\n".join(table(rows, heads=heads, style=style_of(console))))
    else:
        console.fact("no conditions yet")
