"""What `kquota operator release` does: the operator stopped where asked for, finalizers off, and all of it told."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.cli.console import Console, ProgressLine
from reconciler.cli.exits import Exit
from reconciler.cli.running import run
from reconciler.client.clock import SystemClock
from reconciler.errors import KubernetesError
from reconciler.kube.api import Api
from reconciler.kube.release import Released, release
from reconciler.kube.settings import Settings
from reconciler.kube.stopping import stop_deployment

if TYPE_CHECKING:
    from reconciler.render.documents import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A release as it was typed.

    Attributes:
        settings: Where documents and records are.
        deployment: Stopped first; ``None`` = none is.
        timeout: Seconds for that.
        output: ``text`` or ``json``.
    """

    settings: Settings
    deployment: str | None
    timeout: float
    output: str


def carry_out(console: Console, wanted: Wanted) -> Exit:
    """Release, tell, and say whether something is left.

    Raises:
        KubernetesError: Nothing was released.
    """
    released = run(_work(console, wanted))
    _tell(console, wanted, released)
    return Exit.ERROR if released.failed else Exit.DONE


async def _work(console: Console, wanted: Wanted) -> Released:
    settings, clock = wanted.settings, SystemClock()
    async with await Api.connect(settings.kubeconfig, clock=clock) as api:
        if wanted.deployment is not None:
            await _stop(console, api, wanted, clock)
        with ProgressLine(console) as progress:
            return await release(
                api,
                namespaces=settings.namespaces,
                operator_namespace=settings.operator_namespace,
                progress=progress,
            )


async def _stop(console: Console, api: Api, wanted: Wanted, clock: SystemClock) -> None:
    namespace, name = wanted.settings.operator_namespace, wanted.deployment or ""
    try:
        there = await stop_deployment(api, namespace, name, clock=clock, longest=wanted.timeout)
    except KubernetesError as error:
        raise type(error)(
            f"the operator was not stopped, so nothing was released: {error.message}",
            status=error.status,
            reason=error.reason,
            hint=error.hint,
        ) from None
    said = "was stopped" if there else "is not there"
    console.note(f"Deployment {namespace}/{name} {said}")


def _tell(console: Console, wanted: Wanted, released: Released) -> None:
    for document, why in sorted(released.unkept.items()):
        console.warning(f"{document}: what it applied could not be kept: {why}")
    for document, why in sorted(released.failed.items()):
        console.error(f"{document}: {why}")
    if wanted.output == "json":
        from reconciler.render.documents import dump

        failed: dict[str, Json] = dict(released.failed)
        unkept: dict[str, Json] = dict(released.unkept)
        console.fact(
            dump(
                {
                    "kind": "kquota-release",
                    "format": 1,
                    "documents": list(released.documents),
                    "orphanedPairs": released.pairs,
                    "failed": failed,
                    "unkept": unkept,
                }
            )
        )
        return
    console.fact(
        f"{len(released.documents):,} documents released, {released.pairs:,} pairs kept as orphaned;"
        " their quotas stay in Kafka"
        if released.documents
        else "nothing to release"
    )
