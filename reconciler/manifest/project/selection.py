"""Selects the loaded documents of one cluster of a project: by clusterRef, by grants, by scope."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import Problem
from reconciler.manifest.loader import LoadedManifests
from reconciler.manifest.project.cluster import Grant
from reconciler.manifest.project.file import ProjectCluster
from reconciler.quota.grants import judge
from reconciler.quota.patterns import form
from reconciler.quota.planner.desired_state import Declaration


def for_cluster(
    loaded: LoadedManifests, project_cluster: ProjectCluster, *, located: Callable[[str], str] = str
) -> LoadedManifests:
    """Return the effective declarations for one cluster; those that grants and scope refuse become problems.

    Args:
        located: Maps the displayed path of a document to its path relative to the project file, which grants use.
    """
    problems = list(loaded.problems)
    warnings = list(loaded.warnings)
    if project_cluster.own_manifests:
        problems.extend(
            _at(
                declaration,
                f"{declaration.document} is for cluster {cluster_name}, but this path contains manifests of {project_cluster.name}",
                is_refusal=False,
            )
            for cluster_name, declarations in loaded.by_cluster.items()
            if cluster_name != project_cluster.name
            for declaration in declarations
        )
    accepted: list[Declaration] = []
    grant_check = _GrantCheck(
        grants=project_cluster.cluster.grants,
        accepted=accepted,
        problems=problems,
        warnings=warnings,
    )
    for declaration in loaded.of(project_cluster.name):
        if not project_cluster.cluster.rules().in_scope(declaration.entity):
            words = f"{declaration.document}: an entity of the form {form(declaration.entity)} that is outside the scope of {project_cluster.name}"
            problems.append(_at(declaration, words))
        elif not project_cluster.cluster.grants:
            accepted.append(declaration)
        else:
            grant_check.judge(declaration, located(declaration.path))
    return replace(
        loaded,
        by_cluster={project_cluster.name: tuple(accepted)},
        problems=tuple(sorted(set(problems))),
        warnings=tuple(sorted(set(warnings))),
    )


class _GrantCheck(Struct, frozen=True, kw_only=True, gc=False):
    """Checks declarations against grants: collects accepted ones, problems and warnings."""

    grants: tuple[Grant, ...]
    accepted: list[Declaration]
    problems: list[Problem]
    warnings: list[Problem]

    def judge(self, declaration: Declaration, path: str) -> None:
        namespace = declaration.document.partition("/")[0]
        namespace_grants = [grant for grant in self.grants if namespace in grant.tenant.namespaces]
        tenants = [grant.tenant for grant in namespace_grants if grant.covers(path)]
        if not tenants:
            words = (
                f"this path must not contain documents of namespace {namespace}"
                if namespace_grants
                else f"namespace {namespace} has no grant"
            )
            self.problems.append(_at(declaration, f"{declaration.document}: {words}"))
            return
        verdict = judge(declaration, tenants)
        sink = self.warnings if verdict.granted else self.problems
        sink.extend(
            _at(declaration, f"{declaration.document}: {message}", is_refusal=not verdict.granted)
            for message in verdict.messages
        )
        if verdict.granted:
            self.accepted.append(verdict.declaration)


def _at(declaration: Declaration, message: str, *, is_refusal: bool = True) -> Problem:
    return Problem(declaration.path, declaration.line, 1, message, is_refusal)
