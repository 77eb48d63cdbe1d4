"""Cluster selectors: which clusters a document applies to by labels, and its limits in each of them.

Selectors have the meaning of Kubernetes label selectors: all requirements must be met, an empty selector selects
everything, and NotIn also selects clusters without the label. Pure.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from reconciler.manifest.schema_names import GROUP
from reconciler.quota.keys import key_columns
from reconciler.quota.planner.desired_state import Declaration, Lines
from reconciler.quota.state import Limits

Labels: TypeAlias = Mapping[str, str]

NAME_LABEL: Final = f"{GROUP}/name"
"""Label with the name of the cluster; selectors can use it for every cluster."""


class SelectorOperator(StrEnum):
    """How a requirement compares a label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


COMPARES_VALUES: Final = frozenset({SelectorOperator.IN, SelectorOperator.NOT_IN})
"""Operators that need values; the others take none."""


class LabelRequirement(Struct, frozen=True, gc=False):
    """One requirement of a selector."""

    key: str
    operator: SelectorOperator
    values: tuple[str, ...] = ()  # values to compare with; empty for `Exists` and `DoesNotExist`

    def matches(self, labels: Labels) -> bool:
        """Whether labels meet the requirement."""
        match self.operator:
            case SelectorOperator.IN:
                return labels.get(self.key) in self.values
            case SelectorOperator.NOT_IN:
                return labels.get(self.key) not in self.values
            case SelectorOperator.EXISTS:
                return self.key in labels
            case SelectorOperator.DOES_NOT_EXIST:
                return self.key not in labels

    def __str__(self) -> str:
        match self.operator:
            case SelectorOperator.IN if len(self.values) == 1:
                return f"{self.key}={self.values[0]}"
            case SelectorOperator.EXISTS:
                return self.key
            case SelectorOperator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case SelectorOperator.IN | SelectorOperator.NOT_IN:
                word = "in" if self.operator is SelectorOperator.IN else "notin"
                return f"{self.key} {word} ({','.join(self.values)})"


class ClusterSelector(Struct, frozen=True, gc=False):
    """A label selector over clusters; without a requirement it selects all of them."""

    requirements: tuple[LabelRequirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Whether a cluster with these labels is selected."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __str__(self) -> str:
        """Return the form of ``kubectl get -l``; ``every cluster`` for the empty selector."""
        return ",".join(map(str, self.requirements)) or "every cluster"


class ClusterLimits(Struct, frozen=True, kw_only=True, gc=False):
    """An item of ``clusterLimits``: limits for some of the selected clusters."""

    clusters: ClusterSelector | str  # a selector, or the name of one cluster
    limits: Limits  # in columns; at least one is set
    lines: Lines  # line of each limit, in columns
    line: int

    def applies_to(self, name: str, labels: Labels) -> bool:
        """Whether the limits apply to a cluster."""
        if isinstance(self.clusters, str):
            return self.clusters == name
        return self.clusters.matches(labels)


class SelectedClusters(Struct, frozen=True, kw_only=True, gc=False):
    """The clusters that a document selects."""

    selector: ClusterSelector
    # Different limits for some of them; a later item replaces the limits of an earlier one.
    cluster_limits: tuple[ClusterLimits, ...] = ()

    def declaration(
        self, declaration: Declaration, name: str, labels: Labels
    ) -> Declaration | None:
        """Return what the document declares in a cluster; ``None`` if the cluster is not selected.

        Args:
            declaration: The document with its general limits.
            labels: Labels of the cluster from :func:`selection_labels`.
        """
        if not self.selector.matches(labels):
            return None
        limits, lines = list(declaration.limits), list(declaration.lines)
        selections = ["" if limit is None else str(self.selector) for limit in limits]
        for index, item in enumerate(self.cluster_limits):
            if not item.applies_to(name, labels):
                continue
            for column, limit in enumerate(item.limits):
                if limit is not None:
                    limits[column], lines[column] = limit, item.lines[column]
                    selections[column] = f"{self.selector}; clusterLimits[{index}] {item.clusters}"
        return replace(
            declaration,
            limits=key_columns(limits),
            lines=key_columns(lines),
            selections=key_columns(selections),
        )

    def unknown_names(self, names: Iterable[str]) -> tuple[tuple[int, str], ...]:
        """Return items with an unknown cluster name, by index and name."""
        known_names = frozenset(names)
        return tuple(
            (index, item.clusters)
            for index, item in enumerate(self.cluster_limits)
            if isinstance(item.clusters, str) and item.clusters not in known_names
        )


def selection_labels(name: str, labels: Labels) -> Labels:
    """Return the labels of a cluster that selectors use: its own, and its name."""
    return {**labels, NAME_LABEL: name}
