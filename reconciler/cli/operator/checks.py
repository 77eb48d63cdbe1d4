"""What `kquota operator check` asks: each right in Kubernetes, then doctor's questions for each QuotaCluster."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from reconciler.app.event_loop import run
from reconciler.app.inspection.cluster_checks import Checkup, examine, unusable
from reconciler.base.clock import SystemClock
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.inspection.doctor import print_checks
from reconciler.errors import KquotaError
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.configuration.operator_settings import OperatorSettings
from reconciler.kube.run import preflight
from reconciler.render.cluster_state import Check, CheckStatus, checks_document

if TYPE_CHECKING:
    from reconciler.render.json_values import Json

KUBERNETES: Final = "Kubernetes"


def check_all(
    console: Console, settings: OperatorSettings, *, timeout: float, output: str
) -> ExitCode:
    """Ask everything, print it, and say whether something failed.

    Raises:
        ConfigError: There is no way to an API server.
    """
    checkups = run(_check_resources(settings, timeout))
    if output == "json":
        from reconciler.render.json_values import dump

        parts: list[Json] = [
            {"about": subject} | checks_document(checkup.checks, cluster_id=checkup.cluster_id)
            for subject, checkup in checkups
        ]
        console.fact(dump({"kind": "kquota-operator-check", "format": 1, "parts": parts}))
    else:
        for subject, checkup in checkups:
            print_checks(console, subject, checkup)
    return ExitCode.ERROR if any(checkup.failed for _, checkup in checkups) else ExitCode.DONE


async def _check_resources(
    settings: OperatorSettings, patience: float
) -> Sequence[tuple[str, Checkup]]:
    async with await KubernetesApi.connect(settings.kubeconfig, clock=SystemClock()) as api:
        check_list = [await _right(api, right) for right in preflight.rights(settings)]
        try:
            clusters = await preflight.configured(api, settings)
        except KquotaError as error:
            check_list.append(_failed("QuotaClusters", error.message, error.hint))
            clusters = ()
        else:
            check_list.append(_cluster_count_check(settings, len(clusters)))
    checkups = [(KUBERNETES, Checkup(cluster_id="", checks=tuple(check_list)))]
    for cluster in clusters:
        subject = f"QuotaCluster {cluster.name}"
        if cluster.config is None:
            checkups.append((subject, unusable(cluster.error or KquotaError("it cannot be used"))))
        else:
            checkups.append(
                (
                    subject,
                    await examine(cluster.config, patience=patience, expected=cluster.expected),
                )
            )
    return checkups


async def _right(api: KubernetesApi, right: preflight.RequiredRight) -> Check:
    try:
        review = await preflight.review_right(api, right)
    except KquotaError as error:
        return _failed(str(right), error.message, error.hint)
    if review.allowed:
        return Check(name=str(right), health=CheckStatus.OK, observation="allowed")
    reason = f" ({review.reason})" if review.reason else ""
    return _failed(
        str(right), f"not allowed{reason}", f"needed {right.purpose}; the chart's Roles have it"
    )


def _cluster_count_check(settings: OperatorSettings, count: int) -> Check:
    name = "QuotaClusters"
    if count:
        return Check(name=name, health=CheckStatus.OK, observation=f"{count} to serve")
    of = f" of class {settings.operator_class}" if settings.operator_class else ""
    return Check(
        name=name,
        health=CheckStatus.WARNING,
        observation=f"none{of}",
        advice="create one; until then there is nothing to do",
    )


def _failed(name: str, finding: str, advice: str) -> Check:
    return Check(name=name, health=CheckStatus.FAILED, observation=finding, advice=advice)
