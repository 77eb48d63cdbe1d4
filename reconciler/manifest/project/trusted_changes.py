"""Changes of the trusted configuration in a head revision: shown to reviewers without secrets, never used."""

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from reconciler.base.redaction import HIDDEN, redact_url
from reconciler.manifest.project.file import Project
from reconciler.manifest.schema_names import CLUSTER
from reconciler.manifest.syntax.nodes import Json

UNSET: Final = "(unset)"

_SHOWN_PROPERTIES: Final = frozenset(
    {
        "bootstrap.servers",
        "client.dns.lookup",
        "client.id",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "metadata.recovery.strategy",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retries",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.mechanism",
        "sasl.mechanisms",
        "security.protocol",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.truststore.location",
        "ssl.truststore.type",
    }
)
"""Properties whose values contain no secrets. Every other value is hidden, unless it is only a reference."""

_REFERENCE: Final = re.compile(r"\$\{(?:env|file|directory):[^${}]*\}")


class ConfigChange(Struct, frozen=True, kw_only=True, order=True, gc=False):
    """One setting that differs."""

    document: str  # `QuotaCluster/NAME` or `QuotaProject`
    field: str  # path of the setting, such as `spec.guards.maxRemovals`; "" for a whole document
    trusted: str  # the effective value, as display text
    head: str


def changes_between(trusted: Project, head: Project) -> tuple[ConfigChange, ...]:
    """Return every setting that differs, sorted; without secrets."""
    changes: list[ConfigChange] = []
    for document in sorted(trusted.documents.keys() | head.documents.keys()):
        before, after = trusted.documents.get(document), head.documents.get(document)
        if before is None or after is None:
            changes.append(
                ConfigChange(
                    document=document,
                    field="",
                    trusted="(absent)" if before is None else "(present)",
                    head="(absent)" if after is None else "(present)",
                )
            )
        if after is None:
            continue
        # A new cluster is listed in full: a reviewer must see where a head revision wants to connect.
        changes.extend(_differences(document, before or {}, after, ()))
    return tuple(sorted(changes))


def _differences(
    document: str, before: Json, after: Json, at: tuple[str, ...]
) -> Iterator[ConfigChange]:
    if at in {("apiVersion",), ("kind",), ("metadata",), ("status",)} or before == after:
        return
    if isinstance(before, dict | None) and isinstance(after, dict | None) and (before or after):
        for name in sorted((before or {}).keys() | (after or {}).keys()):
            yield from _differences(
                document, (before or {}).get(name), (after or {}).get(name), (*at, name)
            )
        return
    yield ConfigChange(
        document=document,
        field=".".join(at),
        trusted=_display_text(document, at, before),
        head=_display_text(document, at, after),
    )


def _display_text(document: str, at: tuple[str, ...], value: Json) -> str:
    if value is None:
        return UNSET
    in_properties = document.startswith(f"{CLUSTER}/") and at[:2] == ("spec", "properties")
    if not in_properties or at[2:] in {(name,) for name in _SHOWN_PROPERTIES}:
        return _text(value)
    text = str(value)
    return text if _REFERENCE.fullmatch(text) else HIDDEN


def _text(value: Json) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            return (
                "{"
                + ", ".join(
                    f"{redact_url(name)}: {_text(member)}" for name, member in value.items()
                )
                + "}"
            )
        case list():
            return "[" + ", ".join(_text(element) for element in value) + "]"
        case _:
            return redact_url(str(value))
