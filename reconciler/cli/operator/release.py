"""What `kquota operator release` does: the operator stopped where asked for, finalizers off, and all of it reported."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.app.event_loop import run
from reconciler.base.clock import SystemClock
from reconciler.cli.framework.console import Console, ProgressLine
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.errors import KubernetesError
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.configuration.operator_settings import OperatorSettings
from reconciler.kube.records.release import ReleaseResult, release
from reconciler.kube.run.shutdown import stop_deployment

if TYPE_CHECKING:
    from reconciler.render.json_values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOptions:
    """A release as it was typed.

    Attributes:
        settings: Where documents and records are.
        deployment: Stopped first; ``None`` = none is.
        timeout: Seconds for that.
        output: ``text`` or ``json``.
    """

    settings: OperatorSettings
    deployment: str | None
    timeout: float
    output: str


def carry_out(console: Console, options: ReleaseOptions) -> ExitCode:
    """Release, report, and say whether something is left.

    Raises:
        KubernetesError: Nothing was released.
    """
    released = run(_work(console, options))
    _print_result(console, options, released)
    return ExitCode.ERROR if released.failed else ExitCode.DONE


async def _work(console: Console, options: ReleaseOptions) -> ReleaseResult:
    settings, clock = options.settings, SystemClock()
    async with await KubernetesApi.connect(settings.kubeconfig, clock=clock) as api:
        if options.deployment is not None:
            await _stop(console, api, options, clock)
        with ProgressLine(console) as progress:
            return await release(
                api,
                namespaces=settings.namespaces,
                operator_namespace=settings.operator_namespace,
                progress=progress,
            )


async def _stop(
    console: Console, api: KubernetesApi, options: ReleaseOptions, clock: SystemClock
) -> None:
    namespace, name = options.settings.operator_namespace, options.deployment or ""
    try:
        is_present = await stop_deployment(
            api, namespace, name, clock=clock, longest=options.timeout
        )
    except KubernetesError as error:
        raise type(error)(
            f"the operator was not stopped, so nothing was released: {error.message}",
            status=error.status,
            reason=error.reason,
            hint=error.hint,
        ) from None
    phrase = "was stopped" if is_present else "is not there"
    console.note(f"Deployment {namespace}/{name} {phrase}")


def _print_result(console: Console, options: ReleaseOptions, released: ReleaseResult) -> None:
    for document, reason in sorted(released.unkept.items()):
        console.warning(f"{document}: what it applied could not be kept: {reason}")
    for document, reason in sorted(released.failed.items()):
        console.error(f"{document}: {reason}")
    if options.output == "json":
        from reconciler.render.json_values import dump

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
