"""A project whose use was recorded, and an export of it, for the tests of ``kquota usage ingest``."""

from pathlib import Path

import pytest

from tests.cli.usage import recorded_project


@pytest.fixture
def project(folder: Path) -> Path:
    return recorded_project.project(folder)


@pytest.fixture
def export(folder: Path) -> Path:
    return recorded_project.exported(folder)
