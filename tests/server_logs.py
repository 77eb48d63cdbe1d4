"""The last lines of each log that server processes of this test run wrote during a test."""

from pathlib import Path

import pytest

from tests.servers.processes import CHILDREN

LINES = 25
BYTES = 16_384
BEFORE = pytest.StashKey[dict[Path, int]]()
"""The sizes of the logs at the start of the test."""


def sizes() -> dict[Path, int]:
    """The size in bytes of each log of a process of this test run."""
    return {
        path: path.stat().st_size for path in {child.log for child in CHILDREN} if path.exists()
    }


def written_since(before: dict[Path, int]) -> list[tuple[str, str]]:
    """Title and last lines of each log that is new or has grown."""
    sections = []
    for path, size in sorted(sizes().items()):
        start = max(before.get(path, 0), size - BYTES)
        if size <= start:
            continue
        with path.open("rb") as log:
            _ = log.seek(start)
            lines = log.read(BYTES).decode(errors="replace").splitlines()
        sections.append((f"last lines of {path}", "\n".join(lines[-LINES:])))
    return sections
