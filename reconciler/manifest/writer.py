"""Writes declarations and live states as YAML that reads back to the same values; lists what cannot be written.

Names are plain only if every reader reads them as text; everything else is double-quoted, with escapes for
control characters and for line breaks of YAML 1.1. Numbers are written so that no reader reads a whole
number as a float.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from msgspec import Struct

from reconciler.base.escaping import is_shown
from reconciler.errors import QuotaValueError
from reconciler.manifest import quantity
from reconciler.manifest.document import DEFAULT_NAMESPACE
from reconciler.manifest.export import Team, document_names, team_of
from reconciler.manifest.rules.client_quota import canonical_ip
from reconciler.manifest.schema_names import ACCEPT, API_VERSION, QUOTA
from reconciler.manifest.syntax.scalars import is_text
from reconciler.quota.entity import (
    ABSENT,
    DEFAULT,
    MAX_DECLARED_NAME_BYTES,
    Entity,
    Slot,
    is_legal,
    parts,
)
from reconciler.quota.keys import LONG_MAX, RULES, Key, check_value, whole_if_near
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.state import NO_LIMITS, Limits, QuotaState, set_values, with_value

_SAFE_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./@+=-]*")
# Printable in YAML 1.1 and 1.2 and no line break in either, without quote and backslash.
_AS_IS: Final = re.compile(
    r"[\x20\x21\x23-\x5b\x5d-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_MARKER: Final = re.compile(r"##|section_(?:start|end):")
_SHORT_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\t": "\\t",
    "\n": "\\n",
    "\r": "\\r",
    "\0": "\\0",
}
MOST_KEY: Final = 1_000
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class OmittedQuota(Struct, frozen=True, kw_only=True, gc=False):
    """A live quota that no manifest can contain."""

    # `(type, name)` of each slot, name None for the default.
    entity: tuple[tuple[str, str | None], ...]
    key: str  # name of the key; "" if the whole entity cannot be written
    value: float | None  # its value; None for a whole entity
    reason: str


class ExportResult(Struct, frozen=True, kw_only=True, gc=False):
    """A live state as manifests."""

    declarations: tuple[Declaration, ...]  # one document per entity, sorted
    texts: tuple[str, ...]
    left_out: tuple[OmittedQuota, ...]

    @property
    def text(self) -> str:
        """All documents; "" if there are none."""
        return "".join(self.texts)

    @property
    def complete(self) -> bool:
        """Whether the text contains everything."""
        return not self.left_out


def export(
    state: QuotaState,
    *,
    cluster: str,
    namespace: str = DEFAULT_NAMESPACE,
    teams: Sequence[Team] = (),
    existing_names: Iterable[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> ExportResult:
    """Export the part of a live state that manifests can declare, and list the rest.

    Args:
        cluster: Value of ``clusterRef``.
        namespace: Namespace of the documents, unless they belong to a team.
        progress: Called with the number of entities done and in total.
    """
    declarations: list[Declaration] = []
    texts: list[str] = []
    left_out = [
        OmittedQuota(
            entity=names, key=key, value=value, reason="an entity type that manifests do not know"
        )
        for names, values in state.foreign_entities
        for key, value in values
    ]
    entities = state.entities()
    names = document_names(entities, existing_names)
    for done_count, subject in enumerate(entities):
        carried = _declarable_limits(subject, state, left_out)
        if carried != NO_LIMITS:
            team = team_of(subject, teams)
            document = f"{namespace if team is None else team.namespace}/{names[subject]}"
            declaration = Declaration(document=document, entity=subject, limits=carried)
            declarations.append(declaration)
            texts.append(document_text(declaration, cluster=cluster))
        if progress is not None and done_count % 1000 == 0:
            progress(done_count, len(entities))
    return ExportResult(
        declarations=tuple(declarations),
        texts=tuple(texts),
        left_out=tuple(sorted(left_out, key=lambda omitted: (str(omitted.entity), omitted.key))),
    )


def _declarable_limits(subject: Entity, state: QuotaState, left_out: list[OmittedQuota]) -> Limits:
    """Return the limits of an entity that a manifest can declare; the others are added to the list."""
    names = parts(subject)
    limits = state.limits[subject]
    left_out.extend(
        OmittedQuota(
            entity=names, key=key, value=value, reason="a quota key that manifests do not support"
        )
        for key, value in state.foreign_values.get(subject, ())
    )
    cause = unwritable_entity(subject)
    for key, stored in set_values(limits):
        # Kafka enforces a near-whole value of an integral key as that number, and so do comparisons.
        is_whole = RULES[key].is_integer and math.isfinite(stored) and whole_if_near(stored) > 0
        value = whole_if_near(stored) if is_whole else stored
        limits = with_value(limits, key, value)
        reason = cause or unwritable_value(subject, key, value)
        if reason:
            left_out.append(OmittedQuota(entity=names, key=key, value=value, reason=reason))
            limits = with_value(limits, key, None)
    return limits


def unwritable_entity(subject: Entity) -> str:
    """Return why no manifest can declare this entity, or "" if one can."""
    if not is_legal(subject):
        return "not one of the ten forms of entity"
    for kind, name in parts(subject):
        if name is None:
            continue
        if not name:
            return f"an empty {kind} name"
        if _SURROGATE.search(name):
            return f"a {kind} name that is not Unicode text"
        if len(name.encode()) > MAX_DECLARED_NAME_BYTES:
            return f"a {kind} name of more than {MAX_DECLARED_NAME_BYTES} bytes"
        if kind == "ip" and not canonical_ip(name):
            return "an ip that is not an IP address in canonical form"
    return ""


def unwritable_value(subject: Entity, key: Key, value: float) -> str:
    """Return why no manifest can declare this value, or "" if one can."""
    if RULES[key].on_ip != (subject[2] is not ABSENT):
        return f"{RULES[key].field} is not supported for this form of entity"
    try:
        check_value(key, value)
    except QuotaValueError as error:
        return error.message
    return ""


def document_text(declaration: Declaration, *, cluster: str) -> str:
    """Return one document, from its ``---`` on.

    Args:
        cluster: Value of ``clusterRef``.

    Raises:
        QuotaValueError: The entity or a value cannot be written.
    """
    reason = unwritable_entity(declaration.entity)
    if reason:
        raise QuotaValueError(f"{declaration.document}: {reason}")
    namespace, _, name = declaration.document.rpartition("/")
    lines = [
        "---",
        f"apiVersion: {API_VERSION}",
        f"kind: {QUOTA}",
        "metadata:",
        f"  name: {scalar(name)}",
    ]
    if namespace not in {"", DEFAULT_NAMESPACE}:
        lines.append(f"  namespace: {scalar(namespace)}")
    lines += _texts("labels", declaration.labels)
    accepted = {f"{ACCEPT}{kind}": reason for kind, reason in declaration.accepted}
    lines += _texts("annotations", (accepted | dict(declaration.annotations)).items())
    lines += ["spec:", f"  clusterRef: {{name: {scalar(cluster)}}}", "  entity:"]
    lines += [
        f"    {field}: {_slot(slot)}"
        for field, slot in zip(("user", "clientId", "ip"), declaration.entity, strict=True)
        if slot is not ABSENT
    ]
    lines.append("  limits:")
    lines += [
        f"    {RULES[key].field}: {number(key, value)}"
        for key, value in set_values(declaration.limits)
    ]
    if declaration.deletion_policy is not None:
        lines.append(f"  deletionPolicy: {declaration.deletion_policy}")
    if declaration.suspended:
        lines.append("  suspend: true")
    if declaration.until is not None:
        end = datetime.fromtimestamp(declaration.until, UTC).isoformat()
        lines.append(f'  until: "{end.replace("+00:00", "Z")}"')
    return "\n".join(lines) + "\n"


def documents_text(declarations: Iterable[Declaration], *, cluster: str) -> str:
    """Return several documents, in their order.

    Raises:
        QuotaValueError: One of them cannot be written.
    """
    return "".join(document_text(declaration, cluster=cluster) for declaration in declarations)


def _texts(field: str, texts: Iterable[tuple[str, str]]) -> list[str]:
    lines: list[str] = []
    for name, text in texts:
        key = scalar(name)
        # A key on one line with its value may have 1,024 characters at most (YAML 1.2.2, 7.4.2).
        lines += (
            [f"    {key}: {scalar(text)}"]
            if len(key) <= MOST_KEY
            else [f"    ? {key}", f"    : {scalar(text)}"]
        )
    return [f"  {field}:", *lines] if lines else []


def _slot(slot: Slot) -> str:
    return "{default: true}" if slot is DEFAULT else f"{{name: {scalar(str(slot))}}}"


def scalar(text: str) -> str:
    """Return a string on one line that every YAML reader reads back, for any place in a document."""
    if _SAFE_PLAIN.fullmatch(text) and is_text(text):
        return text
    return '"' + _MARKER.sub(_escape_command, "".join(map(_escape, text))) + '"'


def _escape_command(match: re.Match[str]) -> str:
    """Escape text that a CI host would interpret as a command in its log, so that YAML reads it back."""
    return match[0].replace("##", "#\\x23").replace(":", "\\x3A")


def _escape(character: str) -> str:
    if _AS_IS.fullmatch(character) and is_shown(character):
        return character
    code = ord(character)
    short = _SHORT_ESCAPES.get(character)
    if short is not None:
        return short
    return (
        f"\\x{code:02X}"
        if code < 0x100
        else f"\\u{code:04X}"
        if code < 0x10000
        else f"\\U{code:08X}"
    )


def number(key: Key, value: float) -> str:
    """Return a limit as text: a quantity or whole number for integral keys, else a plain decimal.

    Raises:
        QuotaValueError: No manifest can contain the value.
    """
    value = check_value(key, value)
    if value == float(LONG_MAX) and RULES[key].is_integer:
        return str(LONG_MAX)
    if value.is_integer():
        return quantity.spell(int(value)) if RULES[key].is_bytes else str(int(value))
    return f"{Decimal(repr(value)):f}"
