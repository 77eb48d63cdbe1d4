"""What a reconciling command and the Python workers of Spark import."""

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


WORKERS = tuple(
    f"reconciler.evidence.analysis.{name}"
    for name in ("capacity", "impact", "recommendation", "usage")
)
"""Modules with functions that run in workers, of which other machines need NumPy, PyArrow and msgspec only."""

LOOP = "reconciler.usage.kernel.request_loop"


def test_workers_load_no_client_of_object_stores_and_need_no_compiler() -> None:
    code = f"""\
import sys
sys.modules |= dict.fromkeys(("numba", "obstore"))
import {", ".join(WORKERS)}, {LOOP}
sys.exit({LOOP}.compiled() is not {LOOP}.replay)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
