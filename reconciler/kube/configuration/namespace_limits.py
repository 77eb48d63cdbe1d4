"""Limits of one namespace: the operator serves its oldest documents, up to a number and a size.

Tenants can fill their namespaces, and the operator stores the documents of all namespaces in memory. Documents beyond
the limit are stored as excerpts that report this: they claim nothing, so they cause no conflict, and what they
applied before stays. Pure.
"""

import bisect
import json
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.api.custom_resources import Resource

MIB: Final = 1024 * 1024


class NamespaceLimits(Struct, frozen=True, kw_only=True):
    """The limits of one namespace.

    Raises:
        ValueError: A limit is below 1.
    """

    documents: int = 10_000  # maximum number of ClientQuotas
    size: int = 16 * MIB  # maximum bytes of their specs and labels, see `size_of`

    def __post_init__(self) -> None:
        if self.documents < 1 or self.size < 1:
            raise ValueError("the limits of a namespace are at least 1")

    @property
    def sentence(self) -> str:
        """The message of a document beyond the limit; without a count, so that one more document changes no other status."""
        return (
            f"its namespace exceeds the operator's limits: only the oldest {self.documents} ClientQuotas, {self.size / MIB:g} MiB"
            " in total, are served; delete some, or ask the operator's owner to raise the limits"
        )


_Place: TypeAlias = tuple[float, str, int]
"""Creation time, name and size of a document: the order in which documents are served."""


class NamespaceUse:
    """The documents of one namespace, oldest first: those that are served, and those beyond the limit.

    A document is served if it and all older ones are within both limits; the name decides between documents created
    in the same second. Recording one takes two binary searches.
    """

    def __init__(self, limits: NamespaceLimits) -> None:
        self._limits = limits
        self._places: dict[str, _Place] = {}
        self._order: list[_Place] = []
        # The first of the order are served: how many, and their size.
        self._served, self._size = 0, 0

    def __len__(self) -> int:
        return len(self._places)

    def serves(self, document: str) -> bool:
        """Whether a document is within the limit."""
        return self._is_served(self._places[document])

    def _is_served(self, place: _Place) -> bool:
        return self._served == len(self._order) or place < self._order[self._served]

    def put(self, document: str, *, created: float, size: int) -> frozenset[str]:
        """Record a document; return the other documents that thereby moved beyond or back within the limit."""
        place = created, document, size
        if self._places.get(document) == place:
            return frozenset()
        if document in self._places:
            self._take(document)
        self._places[document] = place
        if self._is_served(place):
            self._served, self._size = self._served + 1, self._size + size
        bisect.insort(self._order, place)
        return self._balanced() - {document}

    def remove(self, document: str) -> frozenset[str]:
        """Remove a document; return those that moved within the limit."""
        if document not in self._places:
            return frozenset()
        self._take(document)
        return self._balanced()

    def _take(self, document: str) -> None:
        place = self._places.pop(document)
        if self._is_served(place):
            self._served, self._size = self._served - 1, self._size - place[2]
        del self._order[bisect.bisect_left(self._order, place)]

    def _balanced(self) -> frozenset[str]:
        """Move the end of what is served to where it belongs; return the documents that it passed."""
        moved_documents: set[str] = set()
        while self._served > self._limits.documents or self._size > self._limits.size:
            self._served -= 1
            self._size -= self._order[self._served][2]
            moved_documents ^= {self._order[self._served][1]}
        most = min(len(self._order), self._limits.documents)
        while self._served < most:
            _, name, size = self._order[self._served]
            if self._size + size > self._limits.size:
                break
            self._served, self._size = self._served + 1, self._size + size
            moved_documents ^= {name}
        return frozenset(moved_documents)


# ---- objects ---------------------------------------------------------------------------------

_OF_RECORDS: Final = ("entity", "suspend")


USUAL_LABELS: Final = 32
"""Number of labels of a document that count by their text alone."""

LABEL_SIZE: Final = 160
"""Additional bytes that each further label counts: the memory of an empty label."""


def size_of(obj: Resource) -> int:
    """Return the bytes that a document counts for: what its author wrote and the cache stores, as JSON.

    A label of nine bytes takes 150 in memory. So that a bound on bytes also bounds memory, each label beyond
    :data:`USUAL_LABELS` counts :data:`LABEL_SIZE` more.
    """
    text = json.dumps([obj.spec, obj.labels], separators=(",", ":"))
    further = max(0, len(obj.labels) - USUAL_LABELS)
    return len(text) + len(obj.name) + further * LABEL_SIZE


def excerpt(obj: Resource, limits: NamespaceLimits) -> Resource:
    """Return the excerpt of a document beyond the limit: its identity, its deletionPolicy, and what the operator itself wrote.

    If its status has records, the excerpt also has the entity and whether it is suspended. A status may be edited, so it
    does not decide what a deletion removes.
    """
    spec = {name: obj.spec[name] for name in ("deletionPolicy",) if name in obj.spec}
    if "clusterSelector" not in obj.spec:
        spec["clusterRef"] = {"name": obj.cluster_name}
    if obj.status.get("keys") or obj.status.get("clusters"):
        spec |= {name: obj.spec[name] for name in _OF_RECORDS if name in obj.spec}
    return replace(obj, spec=spec, labels={}, requested_at=None, excess=limits.sentence)
