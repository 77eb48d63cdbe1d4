"""The reasons of conditions: kstatus, Argo CD health, message and advice of each. Contains no behaviour.

A resource has one reason at a time, that of its Ready condition: the first of these that applies to it or to one
of its keys. So their order is the order of precedence: what stops everything, then what stops one key, then
what waits, then what is only informative.
"""

from enum import StrEnum
from typing import Final, Literal, Self, TypeAlias

Truth: TypeAlias = Literal["True", "False", "Unknown"]
KStatus: TypeAlias = Literal["Current", "InProgress", "Failed", "Terminating"]
Health: TypeAlias = Literal["Healthy", "Progressing", "Degraded", "Suspended"]


_ASK_ADMIN: Final = "It cannot be fixed in this namespace; see the status of the QuotaCluster."


class Reason(StrEnum):
    """Why a resource is, or is not, ready; worst first."""

    _value_: str
    # Health that Argo CD's health script computes. Degraded: a person has to act. Progressing: it is retried
    # automatically. Suspended: the user requested it. Healthy: nothing is wrong.
    argo: Health
    on: str  # the kinds that can have it: `Q` for ClientQuota, `C` for QuotaCluster
    # The sentence for a document. It contains no other tenant and no address, because tenants read it.
    message: str
    helps: str  # what to do

    def __new__(cls, value: str, argo: Health, on: str, message: str, helps: str) -> Self:
        """Return a member whose value is the text of the condition's reason."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.argo, member.on, member.message, member.helps = argo, on, message, helps
        return member

    DELETING = (
        "Deleting",
        "Progressing",
        "Q",
        "it was deleted; its limits are being removed first",
        (
            "Wait. After deletionTimeout (10 minutes; a day if too many removals are refused) the document is deleted and its limits stay in Kafka. "
            "The message says what the removal waits for: a guard, an unreachable broker, an incomplete listing."
        ),
    )
    NAMESPACE_LIMIT = (
        "NamespaceLimit",
        "Degraded",
        "Q",
        "its namespace exceeds the operator's limits",
        (
            "Delete ClientQuotas of the namespace, or let the owner of the operator raise --max-documents-per-namespace or "
            "--max-bytes-per-namespace. The oldest documents are served. A document beyond the limit is not applied; its applied "
            "limits stay. It is read again within spec.interval of its QuotaCluster once the namespace is below the limit. "
            "If the message is about records, delete ClientQuotas together with their limits (deletionPolicy: Delete), or let the "
            "owner of the cluster remove limits of deleted documents."
        ),
    )
    INVALID = (
        "Invalid",
        "Degraded",
        "QC",
        "it is invalid",
        (
            "Correct the field in the message. Until then the limits that the document applied stay unchanged."
        ),
    )
    REFERENCE_REFUSED = (
        "ReferenceRefused",
        "Degraded",
        "C",
        "it refers to files, environment variables or secrets of the operator",
        (
            "Put secrets and PEM texts into the Secret of spec.secretRef. An operator started with "
            "--allow-references accepts them, if all users who may write QuotaClusters may read what the operator reads."
        ),
    )
    NO_CLUSTER_SELECTED = (
        "NoClusterSelected",
        "Degraded",
        "Q",
        "its clusterSelector selects no QuotaCluster",
        (
            "Compare the selector with the labels of the QuotaClusters: kubectl get quotaclusters --show-labels. What the document applied "
            "to a QuotaCluster that it selected before is removed there by its deletionPolicy."
        ),
    )
    CLUSTER_NOT_FOUND = (
        "ClusterNotFound",
        "Degraded",
        "Q",
        "there is no such QuotaCluster",
        "Create the QuotaCluster, or delete the document and create it with another clusterRef. Quotas in Kafka stay unchanged.",
    )
    CLUSTER_INVALID = ("ClusterInvalid", "Degraded", "Q", "its QuotaCluster is invalid", _ASK_ADMIN)
    NOT_GRANTED = (
        "NotGranted",
        "Degraded",
        "Q",
        "its namespace may not declare this",
        (
            "Ask the owner of the QuotaCluster for a grant in spec.tenants that covers the form of entity and the values. "
            "What was applied before a grant was revoked stays."
        ),
    )
    OUT_OF_SCOPE = (
        "OutOfScope",
        "Degraded",
        "Q",
        "its entity is outside the scope of the QuotaCluster",
        "Refer to a QuotaCluster whose spec.scope covers the entity, or ask for a wider scope.",
    )
    SUSPENDED = (
        "Suspended",
        "Suspended",
        "QC",
        "it is suspended",
        "Set spec.suspend to false. Meanwhile its limits are neither written nor removed.",
    )
    CLUSTER_SUSPENDED = (
        "ClusterSuspended",
        "Suspended",
        "Q",
        "its QuotaCluster is suspended",
        "Wait until the QuotaCluster is resumed; nothing is written to the cluster meanwhile.",
    )
    SECRET_INVALID = (
        "SecretInvalid",
        "Degraded",
        "QC",
        "the credentials of its cluster are missing or cannot be used",
        (
            "Create the Secret of spec.secretRef in the operator's own namespace, or correct what the message names in it: a key, "
            "a PEM text, a property, the annotation kafka-quotas.io/quota-cluster that names the QuotaCluster. It is read immediately."
        ),
    )
    SECRET_REJECTED = (
        "SecretRejected",
        "Degraded",
        "C",
        "the broker refused new credentials; the session with the old ones stays",
        "Put working credentials into the Secret before the old ones end. Documents are served meanwhile.",
    )
    WRONG_CLUSTER = (
        "WrongCluster",
        "Degraded",
        "QC",
        "the Kafka cluster id is not the expected one",
        (
            "Compare spec.expectedClusterId (without it, the cluster of the first contact counts) with the id of the cluster behind "
            "spec.bootstrapServers. If the cluster was really replaced, set expectedClusterId to the new id; records are "
            "never carried over. Nothing was written."
        ),
    )
    AUTHENTICATION_FAILED = (
        "AuthenticationFailed",
        "Degraded",
        "QC",
        "authentication failed",
        "Correct user, password, mechanism or certificate in the Secret. A refused login is retried every 10 minutes, and when the Secret changes.",
    )
    AUTHORIZATION_FAILED = (
        "AuthorizationFailed",
        "Degraded",
        "QC",
        "the operator's principal lacks a permission on the Kafka cluster",
        (
            "Grant the operator's principal Describe, DescribeConfigs and AlterConfigs on the cluster resource: "
            "kafka-acls --add --allow-principal User:NAME --operation DescribeConfigs --operation AlterConfigs --cluster."
        ),
    )
    TLS_FAILED = (
        "TlsFailed",
        "Degraded",
        "QC",
        "the TLS connection to the Kafka cluster failed",
        "Compare the certificate authority in the Secret and the names in the brokers' certificates with spec.bootstrapServers.",
    )
    UNSUPPORTED_BROKER = (
        "UnsupportedBroker",
        "Degraded",
        "QC",
        "the Kafka cluster does not support the required requests",
        "Brokers need Kafka 2.6 or later; kquota doctor lists the missing request.",
    )
    RECORDS_UNREADABLE = (
        "RecordsUnreadable",
        "Degraded",
        "QC",
        "the ownership records cannot be read, so nothing is written",
        (
            "The message names a damaged or missing ConfigMap in the operator's namespace: restore it from a backup. "
            "Damaged records are not treated as empty, because removals would be lost."
        ),
    )
    OTHER_QUOTA_CLUSTER = (
        "OtherQuotaCluster",
        "Degraded",
        "QC",
        "another QuotaCluster manages the same Kafka cluster",
        "Delete one of the two QuotaClusters.",
    )
    KUBERNETES_REFUSED = (
        "KubernetesRefused",
        "Degraded",
        "QC",
        "the operator lacks a permission on the Kubernetes API server",
        "Compare the operator's Roles with those of the chart; the message contains the API server's error.",
    )
    FAILED = (
        "Failed",
        "Degraded",
        "QC",
        "the last reconciliation failed",
        "See the message of the QuotaCluster and the operator's log; kquota doctor runs the same checks.",
    )
    KUBERNETES_UNAVAILABLE = (
        "KubernetesUnavailable",
        "Progressing",
        "QC",
        "the Kubernetes API server did not answer",
        "Wait; it is retried, and nothing is written to Kafka until then.",
    )
    BROKER_UNAVAILABLE = (
        "BrokerUnavailable",
        "Progressing",
        "QC",
        "no broker of its cluster answers",
        "Wait, or check the brokers; it is retried with increasing delays. Limits in Kafka stay in force.",
    )
    CONFLICT = (
        "Conflict",
        "Degraded",
        "Q",
        "another document owns the limit",
        (
            "Remove the key from one of the two documents. Precedence: smaller tenant priority, then the current owner, then the "
            "older document, then the name. If the winner is deleted, this document takes over; deleting this document writes nothing."
        ),
    )
    BROKER_REJECTED = (
        "BrokerRejected",
        "Degraded",
        "Q",
        "the broker refused the limit",
        "Correct the value or the entity; the message contains the broker's error.",
    )
    GUARD_REFUSED = (
        "GuardRefused",
        "Degraded",
        "QC",
        "a guard of the QuotaCluster refuses the change",
        (
            "The message names the guard and the field in spec.guards that allows it, or says that the definition of ClientQuota is "
            "being deleted: apply the definitions again and restore the documents. A namespace that asks for too many "
            "removals within an hour gets none: list it in guards.approvedRemovals, or raise maxRemovals for a while. Where "
            "another writer's value is live, declare one that is closer to it and change it in steps."
        ),
    )
    FOUGHT_OVER = (
        "FoughtOver",
        "Degraded",
        "Q",
        "another writer keeps reverting the corrections",
        (
            "Find the other writer: the audit log has times and values. Corrections resume after an hour, or when the "
            "document changes."
        ),
    )
    OUTCOME_UNKNOWN = (
        "OutcomeUnknown",
        "Progressing",
        "Q",
        "a write has not been confirmed by every live broker yet",
        (
            "Wait: a write without a response may take effect for up to 65 seconds; then the live value is checked. If it stays, a "
            "broker lags behind the metadata log: kquota doctor lists brokers that do not respond."
        ),
    )
    HELD = (
        "Held",
        "Progressing",
        "Q",
        "it waits for other changes that must take effect first",
        "The message names what it waits for. Correct that document if a guard or the broker refuses it; otherwise wait.",
    )
    LISTING_INCOMPLETE = (
        "ListingIncomplete",
        "Progressing",
        "C",
        "not every document could be read, so nothing is removed",
        "Let the operator list ClientQuotas in every watched namespace; the operator's log names the one that refused.",
    )
    PENDING = (
        "Pending",
        "Progressing",
        "QC",
        "first comparison pending",
        "Wait for the next reconciliation.",
    )
    DRIFTED = (
        "Drifted",
        "Healthy",
        "Q",
        "another writer changed the live value",
        "Set driftDetection: Correct to restore it, declare the live value, or restore it by hand.",
    )
    OBSERVE_ONLY = (
        "ObserveOnly",
        "Healthy",
        "QC",
        "the policy is Observe, so the difference is only shown",
        "To apply the shown changes, set spec.policy of the QuotaCluster to Upsert.",
    )
    POLICY_RESTRICTED = (
        "PolicyRestricted",
        "Healthy",
        "Q",
        "the policy in force does not write this difference",
        "Nothing to do, unless spec.policy should permit it; a limit that another writer changed is never removed.",
    )
    OVERRIDE_ACTIVE = (
        "OverrideActive",
        "Healthy",
        "Q",
        "an override is in force instead of what is declared",
        "Nothing to do; it ends automatically. status.keys has its value, end and reason.",
    )
    ENDED = (
        "Ended",
        "Healthy",
        "Q",
        "its end (spec.until) is over, so it declares nothing",
        "Delete the document. What other documents declare is in effect again, or the value from before.",
    )
    CHANGES_UNSENT = (
        "ChangesUnsent",
        "Healthy",
        "C",
        "a guard or the broker refuses some changes of documents, or they wait for such a change",
        "Documents with the reason GuardRefused, BrokerRejected or Held say which. All other changes were made. status.unsentSince has the time.",
    )
    SYNC_NOT_CONFIRMED = (
        "SyncNotConfirmed",
        "Healthy",
        "C",
        "policy Sync is not confirmed, so Upsert is in force",
        "Set spec.confirmSync to the cluster id after you have reviewed what Sync would remove.",
    )
    SYNCED = ("Synced", "Healthy", "QC", "declared, recorded and live agree", "Nothing to do.")

    @property
    def ready(self) -> Truth:
        """Status of the Ready condition."""
        return "Unknown" if self is Reason.PENDING else _CONDITIONS[self.argo][0]

    @property
    def kstatus(self) -> KStatus:
        """Status that kstatus computes."""
        return "Terminating" if self is Reason.DELETING else _CONDITIONS[self.argo][1]

    @property
    def stalled(self) -> bool:
        """Whether a person has to act."""
        return self.argo == "Degraded"

    @property
    def reconciling(self) -> bool:
        """Whether it is retried automatically."""
        return self.argo == "Progressing"

    @property
    def paused(self) -> bool:
        """Whether the user requested it."""
        return self.argo == "Suspended"

    @property
    def event(self) -> str:
        """Reason of the Event when a document gets this reason; "" = none."""
        return "" if self.argo == "Healthy" or self in _WITHOUT_EVENT else self.value


_CONDITIONS: Final[dict[Health, tuple[Truth, KStatus]]] = {
    "Degraded": ("False", "Failed"),
    "Progressing": ("False", "InProgress"),
    "Suspended": ("Unknown", "InProgress"),
    "Healthy": ("True", "Current"),
}

_WITHOUT_EVENT: Final = frozenset(
    {
        Reason.DELETING,
        Reason.CLUSTER_NOT_FOUND,
        Reason.CLUSTER_INVALID,
        Reason.CLUSTER_SUSPENDED,
        Reason.KUBERNETES_UNAVAILABLE,
        Reason.PENDING,
    }
)

NAMED: Final[dict[str, Reason]] = {reason.value: reason for reason in Reason}
"""The reasons by their texts; a condition may have another text, of another version or writer."""

PRECEDENCE: Final[dict[Reason, int]] = {reason: place for place, reason in enumerate(Reason)}


def worst(*reasons: Reason) -> Reason:
    """Return the reason that a resource shows if several apply."""
    return min(reasons, key=PRECEDENCE.__getitem__, default=Reason.SYNCED)
