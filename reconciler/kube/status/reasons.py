"""The table of reasons: conditions, kstatus, Argo CD health, message and advice of each. Contains no behaviour.

A resource has one reason at a time, that of its Ready condition: the first of this table that applies to it or to one
of its keys. So the order of the rows is the order of precedence: what stops everything, then what stops one key, then
what waits, then what is only informative.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, TypeAlias

Truth: TypeAlias = Literal["True", "False", "Unknown"]
KStatus: TypeAlias = Literal["Current", "InProgress", "Failed", "Terminating"]
Health: TypeAlias = Literal["Healthy", "Progressing", "Degraded", "Suspended"]


class Reason(StrEnum):
    """Why a resource is, or is not, ready; worst first."""

    DELETING = "Deleting"
    NAMESPACE_LIMIT = "NamespaceLimit"
    INVALID = "Invalid"
    REFERENCE_REFUSED = "ReferenceRefused"
    NO_CLUSTER_SELECTED = "NoClusterSelected"
    CLUSTER_NOT_FOUND = "ClusterNotFound"
    CLUSTER_INVALID = "ClusterInvalid"
    NOT_GRANTED = "NotGranted"
    OUT_OF_SCOPE = "OutOfScope"
    SUSPENDED = "Suspended"
    CLUSTER_SUSPENDED = "ClusterSuspended"
    SECRET_NOT_FOUND = "SecretNotFound"  # noqa: S105 - a word, not a secret
    SECRET_KEY_MISSING = "SecretKeyMissing"  # noqa: S105
    SECRET_INVALID = "SecretInvalid"  # noqa: S105
    SECRET_REJECTED = "SecretRejected"  # noqa: S105
    WRONG_CLUSTER = "WrongCluster"
    AUTHENTICATION_FAILED = "AuthenticationFailed"
    AUTHORIZATION_FAILED = "AuthorizationFailed"
    TLS_FAILED = "TlsFailed"
    UNSUPPORTED_BROKER = "UnsupportedBroker"
    RECORDS_UNREADABLE = "RecordsUnreadable"
    OTHER_WRITER = "OtherWriter"
    KUBERNETES_REFUSED = "KubernetesRefused"
    FAILED = "Failed"
    KUBERNETES_UNAVAILABLE = "KubernetesUnavailable"
    BROKER_UNAVAILABLE = "BrokerUnavailable"
    CONFLICT = "Conflict"
    BROKER_REJECTED = "BrokerRejected"
    TWIN_SPELLING = "TwinSpelling"
    TAKEOVER_PENDING = "TakeoverPending"
    GUARD_REFUSED = "GuardRefused"
    FOUGHT_OVER = "FoughtOver"
    OUTCOME_UNKNOWN = "OutcomeUnknown"
    VERIFY_TIMEOUT = "VerifyTimeout"
    HELD = "Held"
    LISTING_INCOMPLETE = "ListingIncomplete"
    PENDING = "Pending"
    DRIFTED = "Drifted"
    OBSERVE_ONLY = "ObserveOnly"
    POLICY_RESTRICTED = "PolicyRestricted"
    OVERRIDE_ACTIVE = "OverrideActive"
    SYNC_NOT_CONFIRMED = "SyncNotConfirmed"
    SYNCED = "Synced"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonRow:
    """One row of the table.

    Attributes:
        reason: The reason.
        ready: Status of the Ready condition.
        stalled: Whether a person has to act; kstatus Failed.
        reconciling: Whether it is retried automatically; kstatus InProgress.
        paused: Whether the user requested it; Argo CD Suspended.
        conflict: Whether the Conflict condition is true.
        kstatus: Status that kstatus computes.
        argo: Health that Argo CD's health script computes.
        on: The kinds that can have it: ``Q`` for ClientQuota, ``C`` for QuotaCluster.
        message: The sentence for a document. It contains no other tenant and no address, because tenants read it.
        helps: What to do.
        event: Reason of the Event when a document gets this reason; "" = none.
    """

    reason: Reason
    ready: Truth
    stalled: bool = False
    reconciling: bool = False
    paused: bool = False
    conflict: bool = False
    kstatus: KStatus
    argo: Health
    on: str
    message: str
    helps: str
    event: str = ""

    def __post_init__(self) -> None:
        if self.stalled and self.reconciling:
            raise ValueError(f"{self.reason} cannot both go on and be stuck")


def _stalled_row(
    reason: Reason, on: str, message: str, helps: str, *, event: str = "", conflict: bool = False
) -> ReasonRow:
    return ReasonRow(
        reason=reason,
        ready="False",
        stalled=True,
        conflict=conflict,
        kstatus="Failed",
        argo="Degraded",
        on=on,
        message=message,
        helps=helps,
        event=event,
    )


def _retrying_row(
    reason: Reason, on: str, message: str, helps: str, *, event: str = "", ready: Truth = "False"
) -> ReasonRow:
    return ReasonRow(
        reason=reason,
        ready=ready,
        reconciling=True,
        kstatus="InProgress",
        argo="Progressing",
        on=on,
        message=message,
        helps=helps,
        event=event,
    )


def _paused_row(reason: Reason, on: str, message: str, helps: str, *, event: str = "") -> ReasonRow:
    return ReasonRow(
        reason=reason,
        ready="Unknown",
        paused=True,
        kstatus="InProgress",
        argo="Suspended",
        on=on,
        message=message,
        helps=helps,
        event=event,
    )


def _ready_row(reason: Reason, on: str, message: str, helps: str) -> ReasonRow:
    return ReasonRow(
        reason=reason,
        ready="True",
        kstatus="Current",
        argo="Healthy",
        on=on,
        message=message,
        helps=helps,
    )


_ASK_ADMIN: Final = "It cannot be fixed in this namespace; see the status of the QuotaCluster."

ROWS: Final = (
    ReasonRow(
        reason=Reason.DELETING,
        ready="False",
        reconciling=True,
        kstatus="Terminating",
        argo="Progressing",
        on="Q",
        message="it was deleted; its limits are being removed first",
        helps="Wait. After deletionTimeout (10 minutes) the document is deleted and its limits stay in Kafka as orphans. "
        "The message says what the removal waits for: a guard, an unreachable broker, an incomplete listing.",
    ),
    _stalled_row(
        Reason.NAMESPACE_LIMIT,
        "Q",
        "its namespace exceeds the operator's limits",
        "Delete ClientQuotas of the namespace, or let the owner of the operator raise --max-documents-per-namespace or "
        "--max-bytes-per-namespace. The oldest documents are served. A document beyond the limit is not applied; its applied "
        "limits stay. It is read again within spec.interval of its QuotaCluster once the namespace is below the limit.",
        event="NamespaceLimit",
    ),
    _stalled_row(
        Reason.INVALID,
        "QC",
        "it is invalid",
        "Correct the field in the message. Until then the limits that the document applied stay unchanged. "
        "A name of more than 512 bytes that was stored by an older release can no longer be declared: delete the document, "
        "with deletionPolicy Retain if its limit is to stay in Kafka.",
        event="InvalidSpec",
    ),
    _stalled_row(
        Reason.REFERENCE_REFUSED,
        "C",
        "it refers to files, environment variables or secrets of the operator",
        "Put secrets and PEM texts into the Secret of spec.secretRef. An operator started with "
        "--allow-references accepts them, if all users who may write QuotaClusters may read what the operator reads.",
        event="ReferenceRefused",
    ),
    _stalled_row(
        Reason.NO_CLUSTER_SELECTED,
        "Q",
        "its clusterSelector selects no QuotaCluster",
        "Compare the selector with the labels of the QuotaClusters: kubectl get quotaclusters --show-labels. What the document applied "
        "to a QuotaCluster that it selected before is removed there by its deletionPolicy.",
        event="NoClusterSelected",
    ),
    _stalled_row(
        Reason.CLUSTER_NOT_FOUND,
        "Q",
        "there is no such QuotaCluster",
        "Create the QuotaCluster, or delete the document and create it with another clusterRef. Quotas in Kafka stay unchanged.",
    ),
    _stalled_row(Reason.CLUSTER_INVALID, "Q", "its QuotaCluster is invalid", _ASK_ADMIN),
    _stalled_row(
        Reason.NOT_GRANTED,
        "Q",
        "its namespace may not declare this",
        "Ask the owner of the QuotaCluster for a grant in spec.tenants that covers the form of entity and the values. "
        "What was applied before a grant was revoked stays.",
        event="NotGranted",
    ),
    _stalled_row(
        Reason.OUT_OF_SCOPE,
        "Q",
        "its entity is outside the scope of the QuotaCluster",
        "Refer to a QuotaCluster whose spec.scope covers the entity, or ask for a wider scope.",
        event="OutOfScope",
    ),
    _paused_row(
        Reason.SUSPENDED,
        "QC",
        "it is suspended",
        "Set spec.suspend to false. Meanwhile its limits are neither written nor removed.",
        event="Suspended",
    ),
    _paused_row(
        Reason.CLUSTER_SUSPENDED,
        "Q",
        "its QuotaCluster is suspended",
        "Wait until the QuotaCluster is resumed; nothing is written to the cluster meanwhile.",
    ),
    _stalled_row(
        Reason.SECRET_NOT_FOUND,
        "QC",
        "the credentials of its cluster are missing",
        "Create the Secret of spec.secretRef in the operator's own namespace. It is read immediately.",
        event="SecretNotFound",
    ),
    _stalled_row(
        Reason.SECRET_KEY_MISSING,
        "QC",
        "the credentials of its cluster are incomplete",
        "Add the key that the message names to the Secret.",
        event="SecretKeyMissing",
    ),
    _stalled_row(
        Reason.SECRET_INVALID,
        "QC",
        "the credentials of its cluster cannot be read",
        "Correct what the message names in the Secret: a PEM text, a property, a password of a key, the annotation "
        "kafka-quotas.io/quota-cluster that names the QuotaCluster.",
        event="SecretInvalid",
    ),
    _stalled_row(
        Reason.SECRET_REJECTED,
        "C",
        "the broker refused new credentials; the session with the old ones stays",
        "Put working credentials into the Secret before the old ones end. Documents are served meanwhile.",
        event="SecretRejected",
    ),
    _stalled_row(
        Reason.WRONG_CLUSTER,
        "QC",
        "the Kafka cluster id is not the expected one",
        "Compare spec.expectedClusterId (or status.clusterId, pinned on first contact) with the id of the cluster behind "
        "spec.bootstrapServers. If the cluster was really replaced, set expectedClusterId to the new id; records are "
        "never carried over. Nothing was written.",
        event="WrongCluster",
    ),
    _stalled_row(
        Reason.AUTHENTICATION_FAILED,
        "QC",
        "authentication failed",
        "Correct user, password, mechanism or certificate in the Secret. A refused login is retried every 10 minutes, and when the Secret changes.",
        event="AuthenticationFailed",
    ),
    _stalled_row(
        Reason.AUTHORIZATION_FAILED,
        "QC",
        "the operator's principal lacks a permission on the Kafka cluster",
        "Grant the operator's principal Describe, DescribeConfigs and AlterConfigs on the cluster resource: "
        "kafka-acls --add --allow-principal User:NAME --operation DescribeConfigs --operation AlterConfigs --cluster.",
        event="AuthorizationFailed",
    ),
    _stalled_row(
        Reason.TLS_FAILED,
        "QC",
        "the TLS connection to the Kafka cluster failed",
        "Compare the certificate authority in the Secret and the names in the brokers' certificates with spec.bootstrapServers.",
        event="TlsFailed",
    ),
    _stalled_row(
        Reason.UNSUPPORTED_BROKER,
        "QC",
        "the Kafka cluster does not support the required requests",
        "Brokers need Kafka 2.6 or later; kquota doctor lists the missing request.",
        event="UnsupportedBroker",
    ),
    _stalled_row(
        Reason.RECORDS_UNREADABLE,
        "QC",
        "the ownership records cannot be read, so nothing is written",
        "The message names a damaged ConfigMap in the operator's namespace: restore it from a backup. "
        "Damaged records are not treated as empty, because removals would be lost.",
        event="RecordsUnreadable",
    ),
    _stalled_row(
        Reason.OTHER_WRITER,
        "QC",
        "another writer manages the same entities",
        "Use scopes that do not overlap (spec.scope), or remove one of the writers; it expires after 30 days.",
        event="OtherWriter",
    ),
    _stalled_row(
        Reason.KUBERNETES_REFUSED,
        "QC",
        "the operator lacks a permission on the Kubernetes API server",
        "Compare the operator's Roles with those of the chart; the message contains the API server's error.",
        event="KubernetesRefused",
    ),
    _stalled_row(
        Reason.FAILED,
        "QC",
        "the last reconciliation failed",
        "See the message of the QuotaCluster and the operator's log; kquota doctor runs the same checks.",
        event="PassFailed",
    ),
    _retrying_row(
        Reason.KUBERNETES_UNAVAILABLE,
        "QC",
        "the Kubernetes API server did not answer",
        "Wait; it is retried, and nothing is written to Kafka until then.",
    ),
    _retrying_row(
        Reason.BROKER_UNAVAILABLE,
        "QC",
        "no broker of its cluster answers",
        "Wait, or check the brokers; it is retried with increasing delays. Limits in Kafka stay in force.",
        event="BrokerUnavailable",
    ),
    _stalled_row(
        Reason.CONFLICT,
        "Q",
        "another document owns the limit",
        "Remove the key from one of the two documents. Precedence: smaller tenant priority, then the current owner, then the "
        "older document, then the name. If the winner is deleted, this document takes over; deleting this document writes nothing.",
        event="Conflict",
        conflict=True,
    ),
    _stalled_row(
        Reason.BROKER_REJECTED,
        "Q",
        "the broker refused the limit",
        "Correct the value or the entity; the message contains the broker's error.",
        event="BrokerRejected",
    ),
    _stalled_row(
        Reason.TWIN_SPELLING,
        "Q",
        "the same IP address is live in another form",
        "Remove the other form with the command in the message; brokers would apply the one written last.",
        event="TwinSpelling",
    ),
    _stalled_row(
        Reason.TAKEOVER_PENDING,
        "Q",
        "another writer's value is live, and a guard refuses to replace it",
        "Declare a value closer to the live one and change it in steps, or ask the owner of the QuotaCluster to widen the "
        "guard in the message.",
        event="TakeoverPending",
    ),
    _stalled_row(
        Reason.GUARD_REFUSED,
        "QC",
        "a guard of the QuotaCluster refuses the change",
        "The message names the guard and the field in spec.guards that allows it, or says that the definition of ClientQuota is "
        "being deleted: apply the definitions again and restore the documents. Each namespace has a "
        "removal budget that refills over guards.window (1 hour): wait, or raise maxRemovals for a while.",
        event="GuardRefused",
    ),
    _stalled_row(
        Reason.FOUGHT_OVER,
        "Q",
        "another writer keeps reverting the corrections",
        "Find the other writer: the audit log has times and values. Corrections resume after an hour, or when the "
        "document changes.",
        event="FoughtOver",
    ),
    _retrying_row(
        Reason.OUTCOME_UNKNOWN,
        "Q",
        "no response from the broker; the result is being determined",
        "Wait: the write may take effect for up to 65 seconds; then the live value is checked.",
        event="OutcomeUnknown",
    ),
    _retrying_row(
        Reason.VERIFY_TIMEOUT,
        "Q",
        "acknowledged, and not yet visible on every live broker",
        "Wait; if it stays, a broker lags behind the metadata log. kquota doctor lists brokers that do not respond.",
        event="VerifyTimeout",
    ),
    _retrying_row(
        Reason.HELD,
        "Q",
        "it waits for other changes that must take effect first",
        "Wait. If it persists, a change that it waits for was refused; see the counts of the QuotaCluster and the audit log.",
    ),
    _retrying_row(
        Reason.LISTING_INCOMPLETE,
        "C",
        "not every document could be read, so nothing is removed",
        "Let the operator list ClientQuotas in every watched namespace; the operator's log names the one that refused.",
        event="ListingIncomplete",
    ),
    _retrying_row(
        Reason.PENDING,
        "QC",
        "first comparison pending",
        "Wait for the next reconciliation.",
        ready="Unknown",
    ),
    _ready_row(
        Reason.DRIFTED,
        "Q",
        "another writer changed the live value",
        "Set driftDetection: Correct to restore it, declare the live value, or restore it by hand.",
    ),
    _ready_row(
        Reason.OBSERVE_ONLY,
        "QC",
        "the policy is Observe, so the difference is only shown",
        "To apply the shown changes, set spec.policy of the QuotaCluster to Upsert.",
    ),
    _ready_row(
        Reason.POLICY_RESTRICTED,
        "Q",
        "the policy in force does not write this difference",
        "Nothing to do. CreateOnly never changes or removes limits; a limit that another writer changed is never removed.",
    ),
    _ready_row(
        Reason.OVERRIDE_ACTIVE,
        "Q",
        "an override is in force instead of what is declared",
        "Nothing to do; it ends automatically. status.keys has its value, end and reason.",
    ),
    _ready_row(
        Reason.SYNC_NOT_CONFIRMED,
        "C",
        "policy Sync is not confirmed, so Upsert is in force",
        "Set spec.confirmSync to the cluster id after you have reviewed what Sync would remove.",
    ),
    _ready_row(Reason.SYNCED, "QC", "declared, recorded and live agree", "Nothing to do."),
)

TABLE: Final[dict[Reason, ReasonRow]] = {row.reason: row for row in ROWS}
PRECEDENCE: Final[dict[Reason, int]] = {row.reason: place for place, row in enumerate(ROWS)}


def worst(*reasons: Reason) -> Reason:
    """Return the reason that a resource shows if several apply."""
    return min(reasons, key=PRECEDENCE.__getitem__, default=Reason.SYNCED)
