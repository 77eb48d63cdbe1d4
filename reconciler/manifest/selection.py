"""What one cluster of a project gets of the loaded documents: by clusterRef, by grants, by scope."""

from dataclasses import replace

from reconciler.errors import Problem
from reconciler.manifest.cluster import QuotaCluster
from reconciler.manifest.load import Loaded
from reconciler.manifest.project import ProjectCluster
from reconciler.quota.desired import Declaration
from reconciler.quota.patterns import form
from reconciler.quota.tenancy import judge


def for_cluster(loaded: Loaded, chosen: ProjectCluster) -> Loaded:
    """The declarations for one cluster as they count, with what its grants and scope refuse among the problems.

    Args:
        loaded: What the cluster's manifests hold.
        chosen: The cluster.
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
    for one in loaded.of(chosen.name):
        if not chosen.cluster.rules().in_scope(one.entity):
            words = f"{one.document}: an entity of the form {form(one.entity)} that is outside the scope of {chosen.name}"
            problems.append(_at(one, words))
        elif not chosen.cluster.grants:
            counted.append(one)
        else:
            _judge(one, chosen.cluster, counted, problems, warnings)
    return replace(
        loaded,
        by_cluster={chosen.name: tuple(counted)},
        problems=tuple(sorted(set(problems))),
        warnings=tuple(sorted(set(warnings))),
    )


def _judge(
    one: Declaration,
    cluster: QuotaCluster,
    counted: list[Declaration],
    problems: list[Problem],
    warnings: list[Problem],
) -> None:
    namespace = one.document.partition("/")[0]
    named = [grant for grant in cluster.grants if namespace in grant.tenant.namespaces]
    here = [grant.tenant for grant in named if grant.covers(one.path)]
    if not here:
        words = (
            f"documents of namespace {namespace} may not come from this path"
            if named
            else f"namespace {namespace} has no grant"
        )
        problems.append(_at(one, f"{one.document}: {words}"))
        return
    verdict = judge(one, here)
    sink = warnings if verdict.granted else problems
    sink.extend(_at(one, f"{one.document}: {message}") for message in verdict.messages)
    if verdict.granted:
        counted.append(verdict.declaration)


def _at(one: Declaration, message: str) -> Problem:
    return Problem(one.path, one.line, 1, message)
