"""The start-up settings of an operator from the command line, as one frozen value."""

from pathlib import Path

from msgspec import Struct, field

from reconciler.errors import UsageError
from reconciler.kube.configuration.namespace_limits import NamespaceLimits


class OperatorSettings(Struct, frozen=True, kw_only=True):
    """The settings of one operator process. Times are seconds."""

    identity: str  # identity in the Lease, events and the audit log; the pod's name
    operator_namespace: str  # namespace of the Lease, the records and the Secrets
    namespaces: tuple[str, ...] = ()  # namespaces of watched ClientQuotas; empty = all
    operator_class: str = ""  # only QuotaClusters of this class are served; "" = those without one
    # File with QuotaClusters, for installs without permissions outside their namespaces; None = custom resources.
    quota_clusters: Path | None = None
    leader_elect: bool = True  # whether a Lease elects the leader
    lease_name: str = "kquota-operator"
    metrics_address: str = ":8080"  # `HOST:PORT` of probes and metrics
    metrics_entity_labels: bool = False  # whether metrics may have entity labels
    webhook_address: str | None = None  # `HOST:PORT` of the admission webhook; None = no webhook
    webhook_cert: Path | None = None  # its PEM chain; required with an address
    webhook_key: Path | None = None  # its PEM key; required with an address
    # PEM authorities of the webhook's callers; None = any caller.
    webhook_client_ca: Path | None = None
    # Whether custom resources may refer to files, variables and token endpoints.
    allow_references: bool = False
    # How long the deletion of a document waits for Kafka before its limits are left in Kafka.
    deletion_timeout: float = 600.0
    # Limits of each namespace.
    namespace_limits: NamespaceLimits = field(default_factory=NamespaceLimits)
    kubeconfig: Path | None = None  # None = kubectl's default, or the pod's service account

    def __post_init__(self) -> None:
        webhook_options = [self.webhook_address, self.webhook_cert, self.webhook_key]
        if None in webhook_options and any(option is not None for option in webhook_options):
            raise UsageError(
                "--webhook-address, --webhook-cert and --webhook-key belong together",
                hint="the API server calls webhooks over TLS only",
            )
        if self.webhook_client_ca is not None and self.webhook_address is None:
            raise UsageError("--webhook-client-ca needs --webhook-address")
        if not self.identity or not self.operator_namespace:
            raise UsageError("an operator needs an identity and a namespace of its own")
