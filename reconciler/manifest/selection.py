"""What one cluster of a project gets of the loaded documents: by clusterRef, by grants, by scope."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from reconciler.errors import Problem
from reconciler.manifest.cluster import Grant
from reconciler.manifest.load import Loaded
from reconciler.manifest.project import ProjectCluster
from reconciler.quota.desired import Declaration
from reconciler.quota.patterns import form
from reconciler.quota.tenancy import judge


def for_cluster(
    loaded: Loaded, chosen: ProjectCluster, *, located: Callable[[str], str] = str
) -> Loaded:
    """The declarations for one cluster as they count, with what its grants and scope refuse among the problems.

    Args:
        loaded: What the cluster's manifests hold.
        chosen: The cluster.
        located: From the path that a document is shown with to its path relative to the project file, which is
            what grants speak of.
    """
    problems = list(loaded.problems)
    warnings = list(loaded.warnings)
    if chosen.own_manifests:
        problems.extend(
            _at(
                one,
                f"{one.document} is for cluster {other}, but this path holds the manifests of {chosen.name}",
            )
            for other, several in loaded.by_cluster.items()
            if other != chosen.name
            for one in several
        )
    counted: list[Declaration] = []
    bench = _Bench(
        grants=chosen.cluster.grants, counted=counted, problems=problems, warnings=warnings
    )
    for one in loaded.of(chosen.name):
        if not chosen.cluster.rules().in_scope(one.entity):
            words = f"{one.document}: an entity of the form {form(one.entity)} that is outside the scope of {chosen.name}"
            problems.append(_at(one, words))
        elif not chosen.cluster.grants:
            counted.append(one)
        else:
            bench.judge(one, located(one.path))
    return replace(
        loaded,
        by_cluster={chosen.name: tuple(counted)},
        problems=tuple(sorted(set(problems))),
        warnings=tuple(sorted(set(warnings))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bench:
    """Where grants are judged: the declarations that count, and what there is to say about the others."""

    grants: tuple[Grant, ...]
    counted: list[Declaration]
    problems: list[Problem]
    warnings: list[Problem]

    def judge(self, one: Declaration, path: str) -> None:
        """Count a declaration as its grants allow, or say why it does not count."""
        namespace = one.document.partition("/")[0]
        named = [grant for grant in self.grants if namespace in grant.tenant.namespaces]
        here = [grant.tenant for grant in named if grant.covers(path)]
        if not here:
            words = (
                f"documents of namespace {namespace} may not come from this path"
                if named
                else f"namespace {namespace} has no grant"
            )
            self.problems.append(_at(one, f"{one.document}: {words}"))
            return
        verdict = judge(one, here)
        sink = self.warnings if verdict.granted else self.problems
        sink.extend(_at(one, f"{one.document}: {message}") for message in verdict.messages)
        if verdict.granted:
            self.counted.append(verdict.declaration)


def _at(one: Declaration, message: str) -> Problem:
    return Problem(one.path, one.line, 1, message)
