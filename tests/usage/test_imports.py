"""The modules of recorded use that a reconciling command imports."""

import subprocess
import sys

MODULES = (
    "reconciler.cli.change.plan",
    "reconciler.cli.change.apply",
    "reconciler.app.change.evidence",
    "reconciler.codecs.simulation",
    "reconciler.manifest.project.simulation_policy",
    "reconciler.usage.impact.what_if",
)


def test_planning_without_evidence_does_not_load_numpy() -> None:
    code = f"import sys, {', '.join(MODULES)}; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
