"""Shared by the tests of foreign formats: files in, limits by entity and remarks by line out, and the round trip."""

from pathlib import Path

from reconciler.errors import ManifestErrors
from reconciler.manifest.foreign.collector import ImportResult
from reconciler.manifest.foreign.tools import read_files
from reconciler.manifest.loader import load_files
from reconciler.manifest.writer import documents_text
from reconciler.quota.entity import entity_text, parts
from reconciler.quota.planner.desired_state import merge
from reconciler.quota.state import set_values

GOLDEN = Path(__file__).parents[2] / "golden" / "foreign"


def sample(name: str) -> tuple[str, str]:
    return name, (GOLDEN / name).read_text(encoding="utf-8")


def read(tool: str, *texts: str | tuple[str, str], cluster: str | None = None) -> ImportResult:
    """Read files of a tool; a plain text has the name ``f``."""
    files = [("f", text) if isinstance(text, str) else text for text in texts]
    return read_files(tool, files, source_cluster=cluster)


def limits(result: ImportResult) -> dict[str, dict[str, float]]:
    """The limits of the manifests, read back from their text: entity to its limits."""
    loaded = load_files(
        [("made.yaml", documents_text(result.declarations, cluster="prod"))]
    ).checked()
    desired = merge(loaded.of("prod"))
    assert not desired.conflicts
    assert len(desired.documents) == len(result.declarations)
    return {
        entity_text(subject): {str(key): value for key, value in set_values(row)}
        for subject, row in desired.limits.items()
    }


def losses(result: ImportResult) -> list[tuple[int, str, str]]:
    """Line, limit, sentence."""
    return [
        (loss.line, f"{loss.key}={loss.value}" if loss.key else "", loss.text)
        for loss in result.losses
    ]


def notes(result: ImportResult) -> list[tuple[int, str]]:
    return [(note.line, note.text) for note in result.notes]


def problems(tool: str, *texts: str | tuple[str, str], cluster: str | None = None) -> list[str]:
    """Errors of files that cannot be read."""
    try:
        result = read(tool, *texts, cluster=cluster)
    except ManifestErrors as errors:
        return [str(problem) for problem in errors.problems]
    raise AssertionError(
        f"was read: {[parts(declaration.entity) for declaration in result.declarations]}"
    )
