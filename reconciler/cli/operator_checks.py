"""What `kquota operator check` asks: each right in Kubernetes, then doctor's questions for each QuotaCluster."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from reconciler.cli.checks import Checkup, examine, unusable
from reconciler.cli.console import Console
from reconciler.cli.doctor import tell
from reconciler.cli.exits import Exit
from reconciler.cli.running import run
from reconciler.client.clock import SystemClock
from reconciler.errors import KquotaError
from reconciler.kube import check
from reconciler.kube.api import Api
from reconciler.kube.settings import Settings
from reconciler.render.states import Check, Health, checks_document

if TYPE_CHECKING:
    from reconciler.render.documents import Json

KUBERNETES: Final = "Kubernetes"


def check_all(console: Console, settings: Settings, *, timeout: float, output: str) -> Exit:
    """Ask everything, print it, and say whether something failed.

    Raises:
        ConfigError: There is no way to an API server.
    """
    found = run(_asked(settings, timeout))
    if output == "json":
        from reconciler.render.documents import dump

        parts: list[Json] = [
            {"about": about} | checks_document(one.checks, cluster_id=one.cluster_id)
            for about, one in found
        ]
        console.fact(dump({"kind": "kquota-operator-check", "format": 1, "parts": parts}))
    else:
        for about, one in found:
            tell(console, about, one)
    return Exit.ERROR if any(one.failed for _, one in found) else Exit.DONE


async def _asked(settings: Settings, patience: float) -> Sequence[tuple[str, Checkup]]:
    async with await Api.connect(settings.kubeconfig, clock=SystemClock()) as api:
        made = [await _right(api, one) for one in check.rights(settings)]
        try:
            clusters = await check.configured(api, settings)
        except KquotaError as error:
            made.append(_failed("QuotaClusters", error.message, error.hint))
            clusters = ()
        else:
            made.append(_counted(settings, len(clusters)))
    found = [(KUBERNETES, Checkup(cluster_id="", checks=tuple(made)))]
    for one in clusters:
        about = f"QuotaCluster {one.name}"
        if one.config is None:
            found.append((about, unusable(one.error or KquotaError("it cannot be used"))))
        else:
            found.append(
                (about, await examine(one.config, patience=patience, expected=one.expected))
            )
    return found


async def _right(api: Api, right: check.Right) -> Check:
    try:
        review = await check.asked(api, right)
    except KquotaError as error:
        return _failed(str(right), error.message, error.hint)
    if review.allowed:
        return Check(name=str(right), health=Health.OK, found="allowed")
    why = f" ({review.reason})" if review.reason else ""
    return _failed(
        str(right), f"not allowed{why}", f"needed {right.purpose}; the chart's Roles have it"
    )


def _counted(settings: Settings, count: int) -> Check:
    name = "QuotaClusters"
    if count:
        return Check(name=name, health=Health.OK, found=f"{count} to serve")
    of = f" of class {settings.operator_class}" if settings.operator_class else ""
    return Check(
        name=name,
        health=Health.WARNING,
        found=f"none{of}",
        advice="create one; until then there is nothing to do",
    )


def _failed(name: str, found: str, advice: str) -> Check:
    return Check(name=name, health=Health.FAILED, found=found, advice=advice)
