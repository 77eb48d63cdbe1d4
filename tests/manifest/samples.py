"""Documents, names and values that the manifest tests share."""

import math
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.manifest.export import document_name
from reconciler.manifest.writer import unwritable_value
from reconciler.quota.entity import ABSENT, DEFAULT, Entity
from reconciler.quota.keys import COLUMNS
from reconciler.quota.planner.desired_state import NO_LINES, NO_SELECTIONS, Declaration
from reconciler.quota.policy import DeletionPolicy
from reconciler.quota.state import Limits

ODD_NAMES = (
    "<default>",
    "CN=a,O=b",
    "CN=a, O=b",
    "ünïcødé",
    "😀",
    "a/b:c,d=e",
    " lead",
    "trail ",
    "a\nb",
    "a\r\nb",
    "\x00\x07\x7f\x85",
    "\u2028\u2029",
    "\ufeff",
    "\uffff",
    "123",
    "y",
    "on",
    "null",
    "~",
    "=",
    "<<",
    "1e7",
    "0o17",
    "12:30",
    "2024-01-01",
    "# c",
    "a #b",
    "a: b",
    "- x",
    "{a}",
    "[a]",
    "*a",
    "&a",
    "%a",
    "@a",
    "`a",
    '"',
    "'",
    "''",
    "\\",
    "\\n",
    "default",
    "true",
    "1_000",
    ".inf",
    "+1",
    "a\tb",
    "---",
    "...",
    "a:",
    ":a",
    "?",
    "? a",
    "|",
    ">",
    "x" * 512,
)

FORMS: tuple[dict[str, Any], ...] = (
    {"user": {"name": "alice"}, "clientId": {"name": "app"}},
    {"user": {"name": "alice"}, "clientId": {"default": True}},
    {"user": {"name": "alice"}},
    {"user": {"default": True}, "clientId": {"name": "app"}},
    {"user": {"default": True}, "clientId": {"default": True}},
    {"user": {"default": True}},
    {"clientId": {"name": "app"}},
    {"clientId": {"default": True}},
    {"ip": {"name": "10.0.0.7"}},
    {"ip": {"default": True}},
)
"""The ten valid entities, in the form of a spec."""

texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=30)
names = st.one_of(
    st.sampled_from(ODD_NAMES), texts, st.from_regex(r"[a-z][a-z0-9.-]{0,12}", fullmatch=True)
)
slots = st.one_of(names, st.just(DEFAULT))
ips = st.one_of(
    st.ip_addresses().map(str).filter(lambda ip: not ip.startswith("::ffff:")), st.just(DEFAULT)
)

entities = st.one_of(
    st.tuples(slots, slots, st.just(ABSENT)),
    st.tuples(slots, st.just(ABSENT), st.just(ABSENT)),
    st.tuples(st.just(ABSENT), slots, st.just(ABSENT)),
    st.tuples(st.just(ABSENT), st.just(ABSENT), ips),
).map(Entity)

whole_numbers = st.one_of(
    st.integers(1, 2**53).map(float),
    st.sampled_from(
        (1.0, 1024.0, 10485760.0, 20000000.0, 2.0**53 + 2, 2.0**62, 2.0**63, 2.0**63 - 1024)
    ),
)
decimal = st.one_of(
    st.floats(min_value=5e-324, allow_infinity=False, allow_nan=False),
    st.sampled_from((50.5, 0.1, 1e-9, 100.0, 1e22, 1.7e308, 5e-324, math.pi)),
)


@st.composite
def limits_for(draw: st.DrawFn, subject: Entity) -> Limits:
    """At least one limit that the entity may carry."""
    if subject[2] is not ABSENT:
        return (None, None, None, None, float(draw(st.integers(1, 2**31 - 1))))
    columns = [
        draw(st.none() | whole_numbers),
        draw(st.none() | whole_numbers),
        draw(st.none() | decimal),
        draw(decimal),
    ]
    return (columns[0], columns[1], columns[2], columns[3], None)


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12) | st.sampled_from(
    ("true", "12", "null", "<<", "# no comment", "a: b", "a\nb", "team", "kafka-quotas.io/tier")
)
labels = st.dictionaries(texts, texts, max_size=3)
"""Labels and annotations: quotes permit any text."""

acceptances = st.dictionaries(
    st.sampled_from(("wildcard", "never-applies", "x y")), texts, max_size=2
)
"""Warnings that annotations accept, with their reasons."""


@st.composite
def declarations(draw: st.DrawFn) -> Declaration:
    """A declaration that a manifest can contain; without places."""
    subject = draw(entities)
    limits = draw(limits_for(subject))
    assert not any(
        unwritable_value(subject, key, value)
        for key, value in zip(COLUMNS, limits, strict=True)
        if value is not None
    )
    return Declaration(
        document=f"{draw(st.sampled_from(('default', 'payments')))}/{document_name(subject)}",
        entity=subject,
        limits=limits,
        deletion_policy=draw(st.none() | st.sampled_from(DeletionPolicy)),
        suspended=draw(st.booleans()),
        until=draw(st.none() | st.integers(2_000_000_000, 4_000_000_000).map(float)),
        labels=tuple(sorted(draw(labels).items())),
        accepted=tuple(sorted(draw(acceptances).items())),
    )


def without_place(declaration: Declaration) -> Declaration:
    """A declaration as from :func:`declarations`."""
    return replace(
        declaration, path="", line=0, lines=NO_LINES, annotations=(), selections=NO_SELECTIONS
    )


def quota(**changes: Any) -> dict[str, Any]:
    """A valid custom resource; ``changes`` replace parts of its spec."""
    return {
        "apiVersion": "kafka-quotas.io/v1alpha1",
        "kind": "ClientQuota",
        "metadata": {"name": "a", "namespace": "payments"},
        "spec": {
            "clusterRef": {"name": "prod"},
            "entity": {"user": {"name": "alice"}},
            "limits": {"producerByteRate": "10Mi"},
        }
        | changes,
    }


def selecting(**changes: Any) -> dict[str, Any]:
    """A valid custom resource that selects clusters; ``changes`` replace parts of its spec."""
    resource = quota(**{"clusterSelector": {"matchLabels": {"tier": "prod"}}, **changes})
    del resource["spec"]["clusterRef"]
    return resource


def cluster(**changes: Any) -> dict[str, Any]:
    """A valid QuotaCluster; ``changes`` replace parts of its spec."""
    return {
        "apiVersion": "kafka-quotas.io/v1alpha1",
        "kind": "QuotaCluster",
        "metadata": {"name": "prod"},
        "spec": {"bootstrapServers": "localhost:9092"} | changes,
    }


HEAD = """\
apiVersion: kafka-quotas.io/v1alpha1
kind: ClientQuota
metadata:
  name: a
spec:
  clusterRef: {name: prod}
"""
"""The first six lines of a document; its entity starts on line 7."""


def refusals(heads: dict[str, str], table: str) -> dict[str, tuple[str, str, str]]:
    """Text, place and words of each mistake, by its name: one row each.

    Args:
        heads: First character of a text -> what it stands for.
        table: Rows of name, text with ``\\n`` for a line break, and line, column and words of the problem.
    """
    cases = dict[str, tuple[str, str, str]]()
    for row in table.strip().splitlines():
        name, text, problem = row.split(" | ")
        text = text.replace(r"\n", "\n")
        place, _, words = problem.partition(" ")
        cases[name] = (heads.get(text[:1], text[:1]) + text[1:], place, words)
    return cases
