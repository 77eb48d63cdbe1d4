"""Warnings about rules that are legal and, most likely, match nobody or everybody by mistake."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from reconciler.quota.desired import Declaration, Desired
from reconciler.quota.entity import level
from reconciler.quota.impact import shadows
from reconciler.quota.keys import Key
from reconciler.quota.state import NO_LIMITS, Limits, State

# RFC 2253 text of a distinguished name has no blank after a comma nor around an equals sign, and brokers compare names
# byte by byte. An attribute is a word or an OID (`2.5.4.3`, `OID.2.5.4.3`); an escaped comma is part of a value.
_ATTRIBUTE: Final = r"(?:[A-Za-z][A-Za-z0-9-]*|(?:[Oo][Ii][Dd]\.)?[0-9]+(?:\.[0-9]+)+)"
_DN_WITH_BLANKS: Final = re.compile(
    rf"(?:{_ATTRIBUTE}=[^\s].*(?<!\\),)?(?:{_ATTRIBUTE}(?:\s+=|=\s)|(?<=,)\s+{_ATTRIBUTE}\s*=)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Warning:  # noqa: A001 - the word that users know; this module raises nothing
    """One doubtful rule.

    Attributes:
        claim: The declaration.
        message: A sentence.
        key: The key concerned; ``None`` = the whole document.
    """

    claim: Declaration
    message: str
    key: Key | None = None

    @property
    def place(self) -> str:
        """``path:line``."""
        return (
            self.claim.place(self.key)
            if self.key is not None
            else f"{self.claim.path}:{self.claim.line}"
        )


def warnings(desired: Desired, live: State | None = None) -> tuple[Warning, ...]:
    """Doubtful rules among the documents, sorted by place.

    Args:
        desired: All documents.
        live: What the cluster has, where it is known: rules may be shadowed by what nobody declares.
    """
    found = [
        warning
        for claims in desired.claims.values()
        for claim in claims
        for warning in _names(claim)
    ]
    found.extend(_shadowed(desired, live))
    return tuple(sorted(found, key=lambda one: (one.claim.path, one.claim.line, one.message)))


def _names(claim: Declaration) -> Iterable[Warning]:
    user, client_id, _ = claim.entity
    if isinstance(user, str) and user.startswith("User:"):
        yield Warning(
            claim=claim,
            message=f"user {user!r}: quotas name the user without `User:`, so this matches nobody",
        )
    if isinstance(user, str) and _DN_WITH_BLANKS.match(user):
        yield Warning(
            claim=claim,
            message=f"user {user!r}: principals of certificates have no blank after a comma or around `=` unless a mapping rule adds it",
        )
    for kind, name in (("user", user), ("client-id", client_id)):
        if name == "<default>":
            yield Warning(
                claim=claim,
                message=f"{kind} '<default>' is a {kind} of that very name; the default {kind} is written {{default: true}}",
            )
        if isinstance(name, str) and name.endswith("*"):
            yield Warning(
                claim=claim,
                message=f"{kind} {name!r}: Kafka knows no wildcards here, so this matches that very name only",
            )
    if level(claim.entity) == 7:
        yield Warning(
            claim=claim,
            message=f"client-id {client_id!r} alone: all users with this client-id share one limit; client ids are chosen by clients",
        )


def _shadowed(desired: Desired, live: State | None) -> Iterable[Warning]:
    declared, everything = desired.limits, (live or State()).limits
    merged = {
        subject: _over(declared.get(subject, NO_LIMITS), everything.get(subject, NO_LIMITS))
        for subject in declared.keys() | everything.keys()
    }
    state = State(limits=merged)
    for shadow in shadows(state):
        claim = desired.claim(shadow.entity, shadow.key)
        if claim is not None:
            by = desired.claim(shadow.by, shadow.key)
            where = (
                f"declared at {by.place(shadow.key)}"
                if by is not None
                else "live, declared nowhere"
            )
            yield Warning(
                claim=claim,
                key=shadow.key,
                message=f"{shadow.key} can never apply: level {level(shadow.by)} is closer to every such client ({where})",
            )


def _over(mine: Limits, there: Limits) -> Limits:
    """What is declared, and what is live where nothing is."""
    one, two, three, four, five = (
        other if value is None else value for value, other in zip(mine, there, strict=True)
    )
    return one, two, three, four, five
