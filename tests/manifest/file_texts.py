"""What reading a set of files gives: the texts, and all problems."""

from reconciler.errors import Problem
from reconciler.manifest.files import FileTexts


def files_of(texts: FileTexts) -> tuple[tuple[str, str], ...]:
    """Path and text of each file that can be read."""
    return tuple((name, text) for name, text in texts if isinstance(text, str))


def problems_of(texts: FileTexts) -> tuple[Problem, ...]:
    """The problems of selecting and reading."""
    return (*texts.problems, *(text for _, text in texts if isinstance(text, Problem)))
