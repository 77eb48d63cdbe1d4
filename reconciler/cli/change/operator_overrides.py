"""``kquota override --kubernetes``: writes overrides to the operator's records; the operator applies them."""

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct

from reconciler.app.clusters.runtime import current_principal
from reconciler.app.event_loop import run
from reconciler.app.requests import TargetRequest
from reconciler.base.clock import SystemClock
from reconciler.base.installation import needs
from reconciler.cli.framework.commands import ExitCode, flag, option
from reconciler.cli.framework.console import Console
from reconciler.cli.options.shared import FILE, OptionPack
from reconciler.errors import Forbidden, UsageError
from reconciler.quota.entity import Entity, entity_text
from reconciler.quota.keys import Key
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import Pair
from reconciler.render.cluster_state import overrides_document

if TYPE_CHECKING:
    from reconciler.kube.records.overrides import OverrideLedger

Result = TypeVar("Result")

PASS_SECONDS: Final = 120.0
"""Longest time to wait for a reconciliation by the operator; the override is recorded in any case."""


class KubernetesOptions(Struct, frozen=True, kw_only=True):
    """Whether an operator applies overrides, and how to reach its records."""

    kubernetes: bool
    operator_namespace: str | None  # namespace of the operator; None = the pod's
    kubeconfig: Path | None  # path of the kubeconfig; None = the same places as kubectl

    def __post_init__(self) -> None:
        if not self.kubernetes and (self.operator_namespace or self.kubeconfig):
            raise UsageError("--operator-namespace and --kubeconfig need --kubernetes")


kubernetes_options: Final = OptionPack(
    "kube",
    KubernetesOptions,
    (
        flag(
            "--kubernetes",
            "Use the records of the Kubernetes operator; --cluster is the name of a QuotaCluster, and this command does not connect to Kafka.",
        ),
        option(
            "--operator-namespace NAMESPACE", "Namespace of the operator  [default: the pod's]."
        ),
        option("--kubeconfig FILE", "Kubeconfig file  [default: as kubectl].", FILE),
    ),
)
"""The options of :class:`KubernetesOptions`, passed as ``kube``."""


def ledger_work(
    cluster_options: TargetRequest,
    kube: KubernetesOptions,
    work: Callable[[Any], Awaitable[Result]],
) -> Result:
    """Call ``work`` with the operator's override ledger of the selected cluster; return its result.

    Raises:
        UsageError: No cluster is selected, or options for brokers or project files are given.
    """
    from reconciler.cli.operator.commands import operator_namespace

    needs("operator", "--kubernetes")
    typed = {"bootstrap_server", "command_config", "project"} - cluster_options.from_environment
    if any(getattr(cluster_options, name) is not None for name in typed):
        raise UsageError(
            "--kubernetes cannot be combined with --bootstrap-server, --command-config or --project"
        )
    cluster = cluster_options.cluster
    if cluster is None:
        raise UsageError("--kubernetes needs --cluster, the name of a QuotaCluster")
    namespace = operator_namespace(kube.operator_namespace)

    from reconciler.kube.api.client import KubernetesApi
    from reconciler.kube.records import overrides

    async def session() -> Result:
        async with await KubernetesApi.connect(kube.kubeconfig, clock=SystemClock()) as api:
            return await work(await overrides.ledger(api, namespace=namespace, cluster=cluster))

    return run(session())


def begin(
    console: Console,
    where: TargetRequest,
    kube: KubernetesOptions,
    *,
    entity: Any,  # noqa: ANN401 - an Entity; its module is imported later
    values: Mapping[Any, float | None],
    seconds: float,
    reason: str,
    any_value: bool,
    yes: bool,
    output: str,
) -> ExitCode:
    """Record overrides, and wait until the operator has reconciled."""
    from reconciler.kube.records import overrides
    from reconciler.reconcile import NewOverride

    _confirm(console, f"Override {entity_text(entity)} on {where.cluster}?", yes=yes)
    until, principal = SystemClock().now() + seconds, current_principal()
    requested = [
        NewOverride(
            entity=entity, key=key, value=value, until=until, principal=principal, reason=reason
        )
        for key, value in values.items()
    ]

    async def work(ledger: overrides.OverrideLedger) -> bool:
        begun = await overrides.begin(ledger, requested, any_value=any_value)
        _print_overrides(console, ledger.cluster_id, begun, output, "override recorded")
        return await _wait_for_reconciliation(
            console, ledger, kube, where.timeout or PASS_SECONDS, begun
        )

    return ExitCode.DONE if ledger_work(where, kube, work) else ExitCode.ERROR


def end(
    console: Console,
    where: TargetRequest,
    kube: KubernetesOptions,
    *,
    entity: Any,  # noqa: ANN401 - an Entity; its module is imported later
    keys: Sequence[Any],
    yes: bool,
    output: str,
) -> ExitCode:
    """End the overrides of an entity: the named keys, or all that it has."""
    from reconciler.kube.records import overrides

    text = entity_text(entity)
    _confirm(console, f"End overrides of {text} on {where.cluster}?", yes=yes)

    async def work(ledger: overrides.OverrideLedger) -> bool:
        recorded = await overrides.overrides(ledger)
        pairs = ending_pairs(
            entity, keys, recorded, list_command=_list_command(ledger.cluster, kube)
        )
        ended = await overrides.end(ledger, pairs, now=SystemClock().now())
        _print_overrides(console, ledger.cluster_id, ended, output, "end of the override recorded")
        return await _wait_for_reconciliation(
            console, ledger, kube, where.timeout or PASS_SECONDS, ended
        )

    return ExitCode.DONE if ledger_work(where, kube, work) else ExitCode.ERROR


def list_overrides(
    cluster_options: TargetRequest, kube: KubernetesOptions
) -> tuple[str, Mapping[Any, Any]]:
    """Return the cluster id and the overrides, in the order in which they are stored."""
    from reconciler.kube.records import overrides

    async def work(ledger: overrides.OverrideLedger) -> tuple[str, Mapping[Any, Any]]:
        return ledger.cluster_id, await overrides.overrides(ledger)

    return ledger_work(cluster_options, kube, work)


def ending_pairs(
    entity: Entity,
    keys: Sequence[Key],
    recorded: Mapping[Pair, Override],
    *,
    list_command: str,
) -> frozenset[Pair]:
    """Return the pairs of an entity whose override is to end: of the named keys, or all that have one.

    Args:
        recorded: The recorded overrides.
        list_command: The command that shows them.

    Raises:
        UsageError: There is no override of a named key, or none of the entity.
    """
    pairs = frozenset((entity, key) for key in keys)
    pairs = pairs or frozenset(pair for pair in recorded if pair[0] == entity)
    missing_keys = sorted(key for _, key in pairs - recorded.keys())
    if missing_keys or not pairs:
        text = ", ".join((entity_text(entity), *missing_keys))
        raise UsageError(
            f"there is no override of {text}", hint=f"`{list_command}` shows all overrides"
        )
    return pairs


def _list_command(cluster: str, kube: KubernetesOptions) -> str:
    """Return the command that lists the overrides of an operator's cluster, quoted for a POSIX shell."""
    words = ["kquota", "override", "list", "--kubernetes", "--cluster", cluster]
    if kube.operator_namespace is not None:
        words += ["--operator-namespace", kube.operator_namespace]
    if kube.kubeconfig is not None:
        words += ["--kubeconfig", str(kube.kubeconfig)]
    return shlex.join(words)


async def _wait_for_reconciliation(
    console: Console,
    ledger: "OverrideLedger",
    kube: KubernetesOptions,
    seconds: float,
    changed: Sequence[Override],
) -> bool:
    """Whether the overrides took effect within ``seconds``; false if a reconciliation cannot be requested."""
    from reconciler.kube.records import overrides

    clock = SystemClock()
    recorded_at = clock.now()
    try:
        is_carried_out = await overrides.wait_until_applied(ledger, seconds=seconds, clock=clock)
    except Forbidden as error:
        console.error(
            f"the override is recorded, but a reconciliation could not be requested: {error.message}"
        )
        console.hint(
            "the operator carries it out with its next complete reconciliation, after spec.interval at the latest;"
            f" `{_list_command(ledger.cluster, kube)}` shows it"
        )
        return False
    if not is_carried_out:
        console.error(
            f"the override is recorded, but the operator did not reconcile within {seconds:g} s"
        )
        console.hint("the operator's log says why; kubectl get lease names the leader")
        return False
    differences = await overrides.differences(
        ledger, changed, recorded_at=recorded_at, now=clock.now()
    )
    for sentence in differences:
        console.error(f"the operator reconciled, but {sentence}")
    if differences:
        console.hint(
            f"the override stays recorded; kubectl describe quotacluster {ledger.cluster} shows what hinders the operator"
        )
    return not differences


def _print_overrides(
    console: Console, cluster_id: str, changed: Sequence[Override], output: str, becomes: str
) -> None:

    if output == "json":
        console.document(
            overrides_document(changed, cluster_id=cluster_id, now=SystemClock().now())
        )
        return
    for record in changed:
        console.fact(f"{record.key} of {entity_text(record.entity)}: {becomes}")


def _confirm(console: Console, question: str, *, yes: bool) -> None:
    if yes:
        return
    console.question(question)
    if not console.answer():
        raise UsageError("cancelled; nothing was written")
