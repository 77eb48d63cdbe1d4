"""Warnings about legal rules that probably match no client, or every client, by mistake."""

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from reconciler.quota.entity import Entity, entity_text, level
from reconciler.quota.keys import COLUMN_OF, Key, key_columns
from reconciler.quota.patterns import EntityPattern
from reconciler.quota.planner.desired_state import Declaration, DesiredState
from reconciler.quota.planner.impact import shadows
from reconciler.quota.state import NO_LIMITS, Limits, QuotaState

# RFC 2253 text of a distinguished name has no blank after a comma or around an equals sign, and brokers compare names
# byte by byte. An attribute is a word or an OID (`2.5.4.3`, `OID.2.5.4.3`); an escaped comma is part of a value.
_ATTRIBUTE: Final = r"(?:[A-Za-z][A-Za-z0-9-]*|(?:[Oo][Ii][Dd]\.)?[0-9]+(?:\.[0-9]+)+)"
_DN_WITH_BLANKS: Final = re.compile(
    rf"(?:{_ATTRIBUTE}=[^\s].*(?<!\\),)?(?:{_ATTRIBUTE}(?:\s+=|=\s)|(?<=,)\s+{_ATTRIBUTE}\s*=)",
    re.DOTALL,
)


DEFAULT_FETCH: Final = 1_048_576
"""Bytes of one partition that a consumer fetches at once: the default of ``max.partition.fetch.bytes``."""

STARVED_SECONDS: Final = 6
"""A fetch of this many seconds of a limit halves a consumer's throughput (KAFKA-9677)."""


_ENDED: Final = "its end (spec.until) is over, so it declares nothing; delete the document"


class WarningKind(StrEnum):
    """Kinds of warnings; documents and projects accept warnings by these names."""

    USER_PREFIX = "user-prefix"
    CERTIFICATE_NAME = "certificate-name"
    DEFAULT_NAME = "default-name"
    WILDCARD = "wildcard"
    SHARED_CLIENT_ID = "shared-client-id"
    NEVER_APPLIES = "never-applies"
    STARVED_FETCH = "starved-fetch"
    ENDED = "ended"
    ACCEPTANCE = "acceptance"


class AcceptedWarning(Struct, frozen=True, kw_only=True, gc=False):
    """A warning that a project accepts."""

    kind: WarningKind
    document: str  # `namespace/name`, or `namespace/*` for all documents of a namespace
    reason: str  # the reason; never blank

    def covers(self, warning: "RuleWarning") -> bool:
        """Whether it accepts this warning."""
        namespace, _, name = warning.claim.document.partition("/")
        return warning.kind is self.kind and self.document in {
            f"{namespace}/{name}",
            f"{namespace}/*",
        }


class FetchSize(Struct, frozen=True, kw_only=True, gc=False):
    """What a project states about its consumers."""

    entities: tuple[EntityPattern, ...]  # empty = all
    size: int  # bytes of one partition that they fetch at once


class WarningSettings(Struct, frozen=True, kw_only=True, gc=False):
    """The part of the trusted project that decides about warnings."""

    accepted: tuple[AcceptedWarning, ...] = ()
    fetch_sizes: tuple[FetchSize, ...] = ()  # the first that matches an entity applies

    def fetch_size(self, subject: Entity) -> int:
        """Return the bytes of one partition that consumers of an entity fetch at once."""
        for stated in self.fetch_sizes:
            if not stated.entities or any(item.matches(subject) for item in stated.entities):
                return stated.size
        return DEFAULT_FETCH


NO_SETTINGS: Final = WarningSettings()
"""No warning is accepted, and nothing is stated."""


class RuleWarning(Struct, frozen=True, kw_only=True, gc=False):
    """A warning about one rule."""

    claim: Declaration
    kind: WarningKind
    message: str
    key: Key | None = None  # the key concerned; None = the whole document
    accepted: str = ""  # why it is accepted; "" = not accepted

    @property
    def place(self) -> str:
        """``path:line``."""
        return (
            self.claim.place(self.key)
            if self.key is not None
            else f"{self.claim.path}:{self.claim.line}"
        )


def warnings(
    desired: DesiredState,
    live: QuotaState | None = None,
    settings: WarningSettings = NO_SETTINGS,
) -> tuple[RuleWarning, ...]:
    """Return the warnings about the documents' rules, sorted by place; accepted ones with the reason.

    Args:
        live: The live quotas, if known: a live limit may hide rules, declared or not.
        settings: What the project states, and the warnings that it accepts beside the documents themselves.
    """
    found_warnings = [
        RuleWarning(claim=claim, kind=kind, message=message, key=key)
        for claim in desired.declarations
        for kind, message, key in (
            *_unmatched_names(claim),
            *_shared_client_ids(claim),
            *_starvation(claim, settings.fetch_size(claim.entity)),
            *_acceptances(claim),
        )
    ]
    found_warnings.extend(
        RuleWarning(claim=claim, kind=WarningKind.ENDED, message=_ENDED) for claim in desired.ended
    )
    found_warnings.extend(_shadow_warnings(desired, live))
    ordered = sorted(
        found_warnings,
        key=lambda warning: (warning.claim.path, warning.claim.line, warning.message),
    )
    return tuple(_mark_accepted(warning, settings.accepted) for warning in ordered)


def _mark_accepted(warning: RuleWarning, accepted: Sequence[AcceptedWarning]) -> RuleWarning:
    """Return the warning with the reason for which its document or the project accepts it."""
    by_project = next((rule.reason for rule in accepted if rule.covers(warning)), "")
    reason = _own_reason(warning.claim, warning.kind) or by_project
    return replace(warning, accepted=reason) if reason else warning


def _own_reason(claim: Declaration, kind: WarningKind) -> str:
    """Return the reason for which a document accepts a kind of warnings; "" = it does not."""
    return dict(claim.accepted).get(str(kind), "").strip()


def unmatched_names(claim: Declaration | None) -> tuple[str, ...]:
    """Return the sentences about names that probably match no client and that the document does not accept."""
    if claim is None:
        return ()
    return tuple(
        message for kind, message, _ in _unmatched_names(claim) if not _own_reason(claim, kind)
    )


_Advice: TypeAlias = Iterator[tuple[WarningKind, str, Key | None]]
"""Kind and sentence of a warning about a document, and the key concerned."""


def _unmatched_names(claim: Declaration) -> _Advice:
    user, client_id, _ = claim.entity
    if isinstance(user, str) and user.startswith("User:"):
        message = f"user {user!r}: quotas name the user without `User:`, so this matches no client"
        yield WarningKind.USER_PREFIX, message, None
    if isinstance(user, str) and _DN_WITH_BLANKS.match(user):
        message = f"user {user!r}: principals of certificates have no blank after a comma or around `=` unless a mapping rule adds it"
        yield WarningKind.CERTIFICATE_NAME, message, None
    for kind, name in (("user", user), ("client-id", client_id)):
        if name == "<default>":
            message = f"{kind} '<default>' is a {kind} with the name <default>; the default {kind} is {{default: true}}"
            yield WarningKind.DEFAULT_NAME, message, None
        if isinstance(name, str) and name.endswith("*"):
            message = (
                f"{kind} {name!r}: Kafka has no wildcards for quotas; this matches only this name"
            )
            yield WarningKind.WILDCARD, message, None


def _shared_client_ids(claim: Declaration) -> _Advice:
    if level(claim.entity) == 7:
        message = f"client-id {claim.entity[1]!r} alone: all users with this client-id share one limit; client ids are chosen by clients"
        yield WarningKind.SHARED_CLIENT_ID, message, None


def _starvation(claim: Declaration, size: int) -> _Advice:
    """Yield a consumer limit so small that one fetch exceeds several seconds of it (empty responses follow)."""
    key = Key.CONSUMER_BYTE_RATE
    rate = claim.limits[COLUMN_OF[key]]
    if rate is not None and 0 < rate * STARVED_SECONDS <= size:
        source = (
            "1 MiB by default" if size == DEFAULT_FETCH else f"{size:,}, as spec.simulate states"
        )
        message = (
            f"{key} {rate:,.0f}: one fetch of max.partition.fetch.bytes ({source}) holds"
            f" {size / rate:,.0f} s of this limit, so consumers get about half of it (KAFKA-9677); allow more than"
            f" {size // STARVED_SECONDS:,} bytes/s, or set max.partition.fetch.bytes below one second of the limit"
        )
        yield WarningKind.STARVED_FETCH, message, key


def _acceptances(claim: Declaration) -> _Advice:
    """Yield each annotation that accepts nothing."""
    for kind, reason in claim.accepted:
        if kind not in set(WarningKind):
            message = f"the annotation accepts {kind!r}, which is not a warning; the warnings are {', '.join(WarningKind)}"
            yield WarningKind.ACCEPTANCE, message, None
        elif not reason.strip():
            message = f"the annotation that accepts {kind!r} has no reason, so the warning is not accepted"
            yield WarningKind.ACCEPTANCE, message, None


def _shadow_warnings(desired: DesiredState, live: QuotaState | None) -> Iterable[RuleWarning]:
    declared, everything = desired.limits, (live or QuotaState()).limits
    merged = {
        subject: _overlay(declared.get(subject, NO_LIMITS), everything.get(subject, NO_LIMITS))
        for subject in declared.keys() | everything.keys()
    }
    state = QuotaState(limits=merged)
    for shadow in shadows(state):
        claim = desired.claim(shadow.entity, shadow.key)
        if claim is not None:
            by = desired.claim(shadow.by, shadow.key)
            location = (
                f"declared at {by.place(shadow.key)}"
                if by is not None
                else "live, declared nowhere"
            )
            yield RuleWarning(
                claim=claim,
                key=shadow.key,
                kind=WarningKind.NEVER_APPLIES,
                message=f"{shadow.key} never applies: {entity_text(shadow.by)} has precedence for every such client ({location})",
            )


def _overlay(declared_limits: Limits, live_limits: Limits) -> Limits:
    """Return the declared limits, completed with live ones."""
    return key_columns(
        [
            live_value if value is None else value
            for value, live_value in zip(declared_limits, live_limits, strict=True)
        ]
    )
