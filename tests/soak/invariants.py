"""Invariants after the end of the faults, checked on Kafka, the documents, the records and the audit log."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from reconciler.kube.api.custom_resources import FINALIZER
from reconciler.kube.records.config_map_reader import read
from reconciler.kube.records.stored_records import StoredRecords
from reconciler.quota.keys import FIELDS, Key
from tests.servers.raw_quotas import Quotas
from tests.soak.plan import Limits, Step

_USER: Final = re.compile(r"user='?([a-z]+[0-9]+)")


@dataclass(slots=True)
class Document:
    """One document as users created it.

    Attributes:
        user: User whose quota it declares.
        namespace: Its namespace.
        limits: Current or last declared limits.
        deletion_policy: `Delete` or `Retain`.
        tried: All declared values, past and current, by key.
        last: The object before its deletion.
    """

    user: str
    namespace: str
    limits: Limits
    deletion_policy: str
    tried: dict[str, set[float]] = field(default_factory=dict[str, set[float]])
    last: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(slots=True)
class Declared:
    """The declarations of users, and their order.

    Attributes:
        documents: All documents, past and current, by name; names are not reused.
        live: Names of those that are not deleted.
        history: Every operation and fault.
    """

    documents: dict[str, Document] = field(default_factory=dict[str, Document])
    live: set[str] = field(default_factory=set[str])
    history: list[str] = field(default_factory=list[str])

    def note(self, at: str, what: object) -> None:
        """Add a line to the history."""
        self.history.append(f"{at} {what}")

    def take(self, step: Step, namespace: str) -> None:
        """Record an executed operation."""
        if step.verb == "create":
            self.documents[step.document] = Document(
                user=step.user,
                namespace=namespace,
                limits=step.limits,
                deletion_policy=step.deletion_policy,
            )
            self.live.add(step.document)
        document = self.documents[step.document]
        if step.verb in {"create", "update"}:
            document.limits = step.limits
            for key, value in step.limits.items():
                document.tried.setdefault(FIELDS[key].value, set()).add(float(value))
        elif step.verb == "delete":
            self.live.discard(step.document)

    def history_of(self, user: str, document: str) -> list[str]:
        """The lines that name a user or document, and the faults."""
        marks = [f"'{word}'" for word in (user, document) if word]
        return [
            line
            for line in self.history
            if "document=''" in line
            or "document=" not in line
            or any(mark in line for mark in marks)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One violated invariant."""

    what: str
    user: str = ""
    document: str = ""

    def __str__(self) -> str:
        return self.what


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """All observed state at one time."""

    objects: Sequence[Mapping[str, Any]]
    config_maps: Sequence[Mapping[str, Any]]
    live: Quotas
    cluster_id: str
    events: int
    logs: str

    @property
    def records(self) -> StoredRecords:
        """The records in the ConfigMaps."""
        return read(self.cluster_id, [dict(config_map) for config_map in self.config_maps])

    def records_of(self, user: str) -> Iterator[str]:
        """The records of a user in the ConfigMaps."""
        records = self.records
        for name, some in (("record", records.owned.records), ("intent", records.owned.intents)):
            yield from (
                f"{name}: {where} {entry}" for where, entry in some.items() if user in str(where)
            )


def problems(
    declared: Declared, observation: Observation, foreign: Mapping[str, float]
) -> list[Problem]:
    """All violated invariants."""
    return [
        *_kafka(declared, observation, foreign),
        *_documents(declared, observation),
        *_records(declared, observation.records),
        *([Problem(what="a traceback in the log")] if "Traceback" in observation.logs else []),
    ]


def _kafka(
    declared: Declared, observation: Observation, foreign: Mapping[str, float]
) -> Iterator[Problem]:
    live = {str(dict(owner)["user"]): values for owner, values in observation.live.items()}
    desired: dict[str, dict[str, float]] = {
        user: {Key.PRODUCER_BYTE_RATE.value: value} for user, value in foreign.items()
    }
    for name in declared.live:
        declaration = declared.documents[name]
        desired[declaration.user] = {
            FIELDS[key].value: float(value) for key, value in declaration.limits.items()
        }
    retained = {
        document.user: document
        for name, document in declared.documents.items()
        if name not in declared.live and document.deletion_policy == "Retain"
    }
    for user in sorted(live.keys() | desired.keys() | retained.keys()):
        values = live.get(user, {})
        if user in desired:
            if values != desired[user]:
                yield Problem(
                    what=f"{user}: {desired[user]} is declared, {values} is live", user=user
                )
        elif user in retained:
            yield from _retained(user, retained[user], values)
        else:
            yield Problem(
                what=f"{user}: {values} is live and was deleted with policy Delete", user=user
            )


def _retained(user: str, document: Document, values: Mapping[str, float]) -> Iterator[Problem]:
    """Applied values stay; the last pending value may be live or not."""
    metadata, status = document.last.get("metadata", {}), document.last.get("status", {})
    sure = status.get("observedGeneration") == metadata.get("generation")
    for key in status.get("keys", ()) if sure else ():
        # A key that the document no longer declares may have been removed since.
        if (
            "applied" in key
            and key.get("desired") == key["applied"]
            and values.get(key["key"]) != key["applied"]
        ):
            yield Problem(
                what=f"{user}: {key['key']} {key['applied']} was to stay, {values} is live",
                user=user,
            )
    for name, value in values.items():
        if value not in document.tried.get(name, ()):
            yield Problem(what=f"{user}: {name} {value} is live and was never declared", user=user)


def _documents(declared: Declared, observation: Observation) -> Iterator[Problem]:
    objects_by_name = {obj["metadata"]["name"]: obj for obj in observation.objects}
    for name in sorted(objects_by_name.keys() | declared.live):
        obj, document = objects_by_name.get(name), declared.documents[name]
        what = ""
        if name not in declared.live:
            what = "was deleted and is still there"
        elif obj is None:
            what = "is gone and was not deleted"
        else:
            what = _status_problem(obj, document)
        if what:
            yield Problem(
                what=f"{name} ({document.user}) {what}", user=document.user, document=name
            )


def _status_problem(obj: Mapping[str, Any], document: Document) -> str:
    status = obj.get("status", {})
    ready = next(
        (condition for condition in status.get("conditions", ()) if condition["type"] == "Ready"),
        {},
    )
    if (ready.get("status"), ready.get("reason")) != ("True", "Synced"):
        return f"is {ready.get('reason')}"
    if status.get("observedGeneration") != obj["metadata"]["generation"]:
        return "has a status of an earlier generation"
    status_values = {
        entry["key"]: (
            entry.get("desired"),
            entry.get("applied"),
            entry.get("live"),
            "intended" in entry,
        )
        for entry in status.get("keys", ())
    }
    expected = {
        FIELDS[key].value: (value, value, value, False) for key, value in document.limits.items()
    }
    if status_values != expected:
        return f"has a status that says {status_values}"
    finalized = FINALIZER in obj["metadata"].get("finalizers", ())
    return "" if finalized == (document.deletion_policy == "Delete") else "has a wrong finalizer"


def _records(declared: Declared, records: StoredRecords) -> Iterator[Problem]:
    owned = records.owned
    retained = {
        document.user
        for name, document in declared.documents.items()
        if name not in declared.live and document.deletion_policy == "Retain"
    }
    names = {f"{declared.documents[name].namespace}/{name}" for name in declared.live}
    for subject, key in owned.intents:
        yield Problem(what=f"an intent is left for {subject[0]} {key}", user=str(subject[0]))
    for subject, record in owned.records.items():
        for _, owner in record.pairs():
            if owner.document not in names and subject[0] not in retained:
                yield Problem(
                    what=f"a record of {subject[0]} is left by {owner.document}",
                    user=str(subject[0]),
                )
    for subject, key in owned.drift_since:
        yield Problem(what=f"drift of {subject[0]} {key} is left", user=str(subject[0]))
