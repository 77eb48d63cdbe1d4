"""Every exception that kquota raises, in one tree. Contains only fields and sentences.

An error answers three questions: whose fault (its class), can a retry help (``retriable``), and where
(its fields). The command line maps ``exit_code``; nothing else branches on it::

    KquotaError                          exit 1
    ├── UsageError                       a command was called incorrectly
    ├── ConfigError                      a client property, project file or flag is wrong
    ├── QuotaValueError                  an entity, key or number that a manifest must not contain
    ├── ManifestErrors                   all problems of a set of files, each with file:line:column
    ├── GitError                         a revision or repository cannot be read as requested
    ├── InventoryError                   records cannot be read, locked or written
    │   └── InventoryLocked              another writer has the lock
    ├── ClientError                      communication with the cluster failed; has node and api
    │   ├── ConnectError                 no connection could be made
    │   │   ├── ConnectionRefused        no process listens at any of the addresses
    │   │   ├── DnsError
    │   │   └── TlsError
    │   ├── AuthenticationError          the broker refused the credentials: final
    │   ├── UnsupportedVersion           client and broker share no version of an API
    │   │   └── ControllerUnavailable    a forwarded API is missing while no controller answers
    │   ├── EncodeError                  a request cannot be encoded: fault of kquota, nothing was sent
    │   ├── ProtocolError                the peer violated the protocol
    │   │   ├── DecodeError
    │   │   │   └── TooManyItems         a message has more items than allowed
    │   │   └── FrameTooLarge
    │   ├── BrokerError                  an error code for the whole request
    │   │   └── AuthorizationError       code 31, with the missing right
    │   └── RequestTimeout               a deadline passed; has the phase
    ├── ForgeError                       a code host refused or could not be reached; has the status
    ├── LakeError                        stored tables or evidence cannot be read or written; has the path
    │   └── LakeConflict, LakeDamaged    another writer was first; a file is missing, truncated or modified
    ├── TelemetryError                   recorded use cannot be read as requested; has the location and HTTP status
    │   └── TelemetryUnavailable         no response, or a response to retry later
    ├── SparkError                       a job failed in Spark; the message is its first line
    ├── KubernetesError                  the API server refused or could not be reached; has status and reason
    │   ├── KubernetesUnavailable        no response, or a response to retry later
    │   └── NotFound, Forbidden, KubernetesConflict, Gone (404, 403, 409, 410), AnswerTooLarge
    ├── LeaseLost                        another operator may be leader from now on: nothing was sent
    ├── CredentialsError                 a Secret of a cluster cannot be used; has a reason and the keys
    ├── TaskDied                         a task of a serving process ended or failed
    ├── WrongCluster                     exit 3: the cluster id is not the expected one
    ├── PlanRefused                      exit 3: a guard or policy refuses
    ├── StalePlan                        exit 4: a plan is no longer valid
    └── Interrupted                      exit 130: after Ctrl-C, once the state has been reported
"""

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct


class KquotaError(Exception):
    """The root. ``str(error)`` is one sentence for the user; ``hint`` is the next step.

    Args:
        message: What happened and where, without a trailing period.
        hint: What the user can do next, or "".
    """

    exit_code: int = 1
    retriable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def reword(self, message: str) -> None:
        """Replace the message; class and other fields stay."""
        self.message, self.args = message, (message,)


class UsageError(KquotaError):
    """A command was called with arguments that do not fit together."""


class ConfigError(KquotaError):
    """A setting is wrong: ``key`` is its name, ``where`` the file (with line, if known)."""

    def __init__(self, message: str, *, key: str = "", location: str = "", hint: str = "") -> None:
        super().__init__(f"{location}: {message}" if location else message, hint=hint)
        self.key = key
        self.where = location


class QuotaValueError(KquotaError):
    """An entity, key or number that a manifest must not contain."""


class Problem(Struct, frozen=True, order=True):
    """One problem in a file; line and column count from 1, 0 means unknown."""

    path: str
    line: int
    column: int
    message: str
    is_refusal: bool = False  # by the scope or a grant of the project; the document can be read

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.message}"


class ManifestErrors(KquotaError):
    """All problems of a set of files, sorted by place; the exit code is 3 if all of them are refusals."""

    def __init__(self, problems: Sequence[Problem], *, hint: str = "") -> None:
        self.problems = tuple(sorted(problems))
        self.exit_code = 3 if all(problem.is_refusal for problem in self.problems) else 1
        super().__init__("\n".join(str(problem) for problem in self.problems), hint=hint)


class GitError(KquotaError):
    """A revision, path or repository cannot be read as requested."""


class InventoryError(KquotaError):
    """The ownership records cannot be read or written."""


class InventoryLocked(InventoryError):
    """Another writer has the lock of the inventory; ``holder`` identifies it, as far as the lock shows."""

    retriable = True

    def __init__(self, message: str, *, holder: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.holder = holder


class ClientError(KquotaError):
    """Communication with the cluster failed.

    Args:
        node: ``host:port`` or ``host:port (id N)`` of the peer, "" if none was reached.
        api: Name of the current request, "" before the first.
        attempt: Number of attempts, counting from 1.
    """

    def __init__(
        self, message: str, *, node: str = "", api: str = "", attempt: int = 1, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.node = node
        self.api = api
        self.attempt = attempt


class ConnectError(ClientError):
    """No connection could be made, or it was lost before a response."""

    retriable = True


class ConnectionRefused(ConnectError):
    """Every address refused the connection: no process listens there."""


class DnsError(ConnectError):
    """A bootstrap host name did not resolve."""


class TlsError(ConnectError):
    """The TLS handshake failed. Not retried, because certificate errors are final."""

    retriable = False


class AuthenticationError(ClientError):
    """The broker refused the credentials. Not retried: repeated wrong passwords could lock the account."""


class UnsupportedVersion(ClientError):
    """The broker supports no version of an API that kquota supports."""


class ControllerUnavailable(UnsupportedVersion):
    """A KRaft broker offers no version of an API that it forwards: its controller is unavailable for now."""

    retriable = True


class EncodeError(ClientError):
    """A request cannot be encoded in the negotiated version; a fault of kquota, nothing was sent."""


class ProtocolError(ClientError):
    """The peer violated the protocol; the connection is closed and the response is discarded."""


class DecodeError(ProtocolError):
    """A message cannot be decoded; ``offset`` counts bytes from the start of its body, -1 = unknown."""

    def __init__(self, message: str, *, offset: int = -1, node: str = "", api: str = "") -> None:
        super().__init__(message, node=node, api=api)
        self.offset = offset


class TooManyItems(DecodeError):
    """A message has more items than allowed; nothing was allocated for those above the limit."""

    def __init__(self, message: str, *, offset: int = -1, hint: str = "") -> None:
        super().__init__(message, offset=offset)
        self.hint = hint or "no Kafka broker sends that number of items; check bootstrap.servers"


class FrameTooLarge(ProtocolError):
    """A frame announces more bytes than ``limit``; nothing was allocated for it."""

    def __init__(self, message: str, *, size: int, limit: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.size = size
        self.limit = limit


class BrokerError(ClientError):
    """The broker answered the whole request with an error code and, often, a message."""

    def __init__(
        self,
        message: str,
        *,
        code: int,
        node: str = "",
        api: str = "",
        attempt: int = 1,
        hint: str = "",
    ) -> None:
        super().__init__(message, node=node, api=api, attempt=attempt, hint=hint)
        self.code = code


class AuthorizationError(BrokerError):
    """Code 31: the principal lacks a right on the cluster resource; the message contains the right."""


class RequestTimeout(ClientError):
    """A deadline passed in ``phase`` (connect, request, throttled)."""

    retriable = True

    def __init__(
        self,
        message: str,
        *,
        phase: str,
        node: str = "",
        api: str = "",
        attempt: int = 1,
        hint: str = "",
    ) -> None:
        super().__init__(message, node=node, api=api, attempt=attempt, hint=hint)
        self.phase = phase


class ForgeError(KquotaError):
    """A code host refused a request, sent an invalid response or could not be reached.

    Args:
        status: HTTP status; 0 without a response.
        unsure: Whether the request may have been applied although no response confirms it.
        may_work_later: Whether the same request may succeed later; useful retries were already made.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        unsure: bool = False,
        may_work_later: bool = False,
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.unsure = unsure
        self.may_work_later = may_work_later


class LakeError(KquotaError):
    """Stored tables or evidence cannot be read or written; ``path`` is the file, without secrets of its address."""

    def __init__(self, message: str, *, path: str = "", hint: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message, hint=hint)
        self.path = path


class LakeConflict(LakeError):
    """Another writer committed the same unit first: read it again and repeat the change."""

    retriable = True


class LakeDamaged(LakeError):
    """A stored file is missing, truncated, modified, or of an unsupported version: create it again."""


class TelemetryError(KquotaError):
    """Recorded use cannot be read as requested; has its file or address without secrets, and HTTP status (0 = none)."""

    def __init__(
        self, message: str, *, location: str = "", status: int = 0, hint: str = ""
    ) -> None:
        super().__init__(f"{location}: {message}" if location else message, hint=hint)
        self.where = location
        self.status = status


class TelemetryUnavailable(TelemetryError):
    """No response, or a response to retry later."""

    retriable = True


class SparkError(KquotaError):
    """A job failed in Spark, or its session was lost. The message is the first line of Spark's error."""


class KubernetesError(KquotaError):
    """The Kubernetes API server refused a request, or could not be reached.

    Args:
        status: HTTP status; 0 without a response.
        reason: The reason of the Kubernetes Status object, such as ``Conflict`` or ``AlreadyExists``; "" without one.
    """

    def __init__(self, message: str, *, status: int = 0, reason: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.reason = reason


class KubernetesUnavailable(KubernetesError):
    """No response, or 429 or 5xx: useful retries were already made. A write may have been applied."""

    retriable = True


class NotFound(KubernetesError):
    """404: the object does not exist, or the server does not have its kind."""


class Forbidden(KubernetesError):
    """403: a Role lacks a right, or an admission policy refuses; the server's message has the details."""


class KubernetesConflict(KubernetesError):
    """409: another writer changed or created the object meanwhile; read it again and repeat the change."""

    retriable = True


class Gone(KubernetesError):
    """410: a listing or a version is too old; list again."""

    retriable = True


class AnswerTooLarge(KubernetesError):
    """A response exceeds the allowed size; it was not read to its end."""


class LeaseLost(KquotaError):
    """The Lease was not renewed in time, or has another holder: nothing may be written until it is renewed."""

    retriable = True


class CredentialsError(ConfigError):
    """A Secret with client properties is missing, incomplete or unusable. The message never has its contents.

    Args:
        keys: The affected keys of the Secret.
    """

    def __init__(self, message: str, *, keys: Sequence[str] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.keys = tuple(keys)


class TaskDied(KquotaError):
    """A task that must run as long as its process ended or failed; ``name`` is the task, ``reason`` its exception."""

    def __init__(
        self, message: str, *, name: str, reason: BaseException | None = None, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.name = name
        self.reason = reason


class WrongCluster(KquotaError):
    """The cluster that answered is not the expected one; nothing was written. A guard, so exit 3."""

    exit_code = 3

    def __init__(self, message: str, *, expected: str, actual: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.expected = expected
        self.found = actual


class PlanRefused(KquotaError):
    """Guards or policy refuse the plan; ``violations`` has one sentence for each."""

    exit_code = 3

    def __init__(self, message: str, *, violations: Sequence[str] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.violations = tuple(violations)


class StalePlan(KquotaError):
    """A plan no longer matches cluster, inventory, manifests or clock (``differences``): it is made again."""

    exit_code = 4
    retriable = True

    def __init__(self, message: str, *, differences: Sequence[str] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.differences = tuple(differences)


class Interrupted(KquotaError):
    """The user requested a stop; ``outcome`` is the ``report.Outcome`` of the run, ``None`` = nothing was sent."""

    exit_code = 130

    def __init__(self, message: str, *, outcome: object = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.outcome = outcome
