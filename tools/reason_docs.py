"""Generates ``docs/troubleshooting.md`` from the table of reasons: ``python -m tools.reason_docs --write`` or ``--check``."""

import sys
from typing import Final

from reconciler.kube.status.events import MOST_BYTES
from reconciler.kube.status.reasons import Reason
from tools import modes

PATH: Final = "docs/troubleshooting.md"

_HEAD: Final = """\
<!-- Generated from reconciler/kube/status/reasons.py by `python -m tools.reason_docs --write`. -->
# Troubleshooting

Every resource has one reason, in its `Ready` condition and in the lists of `kubectl`. Look there first:

```console
$ kubectl get ckq --all-namespaces          # ClientQuota: entity, Ready, Reason; -o wide adds the sentence
$ kubectl get qcl                           # QuotaCluster: Ready, Reason, documents, drifted pairs
$ kubectl describe ckq alice-checkout       # per key: declared, live, applied value, cause, the broker's message
$ kubectl wait --for=condition=Ready ckq/alice-checkout --timeout=2m
```

A fault of one document is in the status of that document. A fault of the cluster is in the status of the QuotaCluster with its details, and on its
documents with the same reason and one sentence: tenants read them, so they name no address, no secret and no other tenant.

To request a reconciliation of a ClientQuota or QuotaCluster now, set its annotation `kafka-quotas.io/requestedAt` to a new value and wait until `status.lastHandledReconcileAt` has it.

## What you see first

| you see | look at |
| --- | --- |
| no status at all | The first reconciliation has not ended, or the operator does not see the object: is its namespace watched, does a QuotaCluster of that name exist, does an operator with that `operatorClass` run and lead? `kubectl logs` of the operator names what it watches. |
| `Pending` for long | The first reconciliation takes long or cannot begin: the QuotaCluster's reason says why. |
| `observedGeneration` is older than `metadata.generation` | The change was not seen yet: as above. kstatus, Flux and Argo CD say "in progress" meanwhile. |
| a namespace or an object stays in Terminating | [Deleting](#deleting). It ends by itself after `--deletion-timeout` (10 minutes). If no operator runs any more: `kquota operator release`, see [uninstall](operate.md#uninstall). |
| Ready, but clients are not limited | Limits are per broker, and a closer level wins: `kquota resolve --user U --client-id C`. See [semantics.md](semantics.md). |
| Ready, but the live value is another one | `Drifted`, `OverrideActive`, `ObserveOnly` and `PolicyRestricted` are Ready on purpose: nothing is wrong with the document. |
| Argo CD stays at Progressing | Its health script is not installed: see [argo-and-flux.md](argo-and-flux.md). |
| after `kubectl delete crd` the message says that the definition is being deleted | [A deleted definition](#a-deleted-definition) |

## A deleted definition

`kubectl delete crd clientquotas.kafka-quotas.io` deletes every ClientQuota. While the definition is being deleted or is gone, no limit is
removed from Kafka: the QuotaCluster says `GuardRefused`, and the documents say `Deleting`. The deletion cannot be taken back.

1. The documents go after `operator.deletionTimeout` (10 minutes), and then the definition. To let them go at once, run
   `kquota operator release --all --operator-namespace NAMESPACE --stop-deployment NAME`, and start the operator again afterwards.
2. Apply the definitions again, with `helm upgrade` or from `crds/`.
3. Restore the documents from git. Their limits, listed as orphaned meanwhile, are adopted.

This needs the right to `get` the CustomResourceDefinition `clientquotas.kafka-quotas.io`, which the chart's ClusterRole has. With Roles only
(`watch.namespaces` and `quotaClusters.fromFile`) the operator cannot know it, and the [guard of removals](policy.md#removals-in-a-loop) alone
bounds what is removed. There set `guards.maxRemovals: 0` before you delete the definition.

## All reasons

Where several apply to a resource or to its keys, the first in this table is shown; the message then names the
others behind it. `Reconciling` means that it goes on by itself; `Stalled` that a person has to do something: `kubectl wait`,
Flux and Argo CD stop waiting then.

| reason | on | Ready | other conditions | kstatus | Argo CD | Event |
| --- | --- | --- | --- | --- | --- | --- |
"""

_CONDITIONS: Final = """
`Ready`, `Drifted`, `Conflict` and `Paused` are always there; `Reconciling`, `Stalled` and `Doubtful` (a name
that probably matches no client, such as `User:bob`, `<default>` or `etl-*`; on a QuotaCluster a client property that
Kafka does not know, such as `client.idd`), and `OverBudget` ([budgets](budgets.md)) only while they are true. A time changes
when a status flips and at no other time. `Drifted` is Unknown (`NotCompared`) while nothing is compared, and for a difference that was seen
once: it becomes True after two observations in a row, three seconds apart, so that a broker that lags is not taken for
a writer, and not before a minute and a half after a takeover, while the earlier leader's writes may still arrive.
Corrections wait for that, too.

Events report transitions: a document that becomes ready the first time has none. Besides those of the table there are
`DriftDetected`, `DriftCorrected`, `Reconciled` (in order again), `MatchesNoClient`, `Orphaned` (a
document was deleted, and its limits stay) and `Released` on the QuotaCluster (a document went, and its limits stay). Notes have at most {bytes} bytes. Trouble of a cluster is sent once, on
the QuotaCluster.
"""


def text() -> str:
    """Return the whole page."""
    rows = "".join(_row(reason) for reason in Reason)
    sections = "".join(_section(reason) for reason in Reason)
    return _HEAD + rows + _CONDITIONS.format(bytes=MOST_BYTES) + sections


def _row(reason: Reason) -> str:
    link = f"[{reason}](#{reason.lower()})"
    other_conditions = [
        name
        for name, holds in (
            ("Stalled", reason.stalled),
            ("Reconciling", reason.reconciling),
            ("Paused", reason.paused),
            ("Conflict", reason is Reason.CONFLICT),
        )
        if holds
    ]
    cells = (
        link,
        _kinds(reason),
        reason.ready,
        ", ".join(other_conditions),
        reason.kstatus,
        reason.argo,
        reason.event,
    )
    return "| " + " | ".join(cells) + " |\n"


def _kinds(reason: Reason) -> str:
    return {"Q": "ClientQuota", "C": "QuotaCluster", "QC": "both"}[reason.on]


def _section(reason: Reason) -> str:
    sentence = reason.message[0].upper() + reason.message[1:]
    return f"\n## {reason}\n\n*{sentence}.* {reason.helps}\n"


if __name__ == "__main__":
    sys.exit(modes.main(sys.argv[1:], modes.ROOT, lambda: {PATH: text()}))
