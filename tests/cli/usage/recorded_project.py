"""A project with one cluster whose use was recorded, and an export of it, for the tests of ``kquota usage ingest``."""

from pathlib import Path

from tests.cli import projects
from tests.evidence.ingest import recorded_use

BEGIN = 1_700_006_400_000 - 600_000
SERIES = recorded_use.recorded(BEGIN, 40)
SETTINGS = """\
  expectedClusterId: id-o
  telemetry:
    matchers: cluster="orders"
    scrapeStep: 30s
    evidenceUri: evidence
"""


def project(folder: Path) -> Path:
    """Write the project file ``orders`` to a folder; return the folder."""
    projects.project(folder, "h:9092", more=SETTINGS, name="orders")
    return folder


def exported(folder: Path) -> Path:
    """Write a dump of a Prometheus; return its path."""
    path = folder / "export.om"
    path.write_text(recorded_use.openmetrics(SERIES))
    return path
