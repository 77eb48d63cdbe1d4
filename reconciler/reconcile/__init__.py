"""The reconcile workflow: observe, plan, check guards, validate, apply, verify, report. Uses only ports, no client or file.

    prepared = await prepare(ports, options, desired)      # observe -> plan -> guards -> validate
    outcome = await apply(ports, options, prepared)        # send -> verify -> record -> audit

``reconcile/workflow.py`` has these two functions; the other modules contain their steps.
"""

from reconciler.reconcile.approval import SavedPlan, check_approved, check_digest
from reconciler.reconcile.drift import note_drift
from reconciler.reconcile.observation import Observation, observe
from reconciler.reconcile.options import (
    NewOverride,
    ReconcileOptions,
    ReconcilePorts,
    ValidationMode,
    rollback_orders,
)
from reconciler.reconcile.reconciliation import reconcile_cluster, refuse_nothing, withhold
from reconciler.reconcile.workflow import PreparedPlan, apply, prepare, preview

__all__ = [
    "NewOverride",
    "Observation",
    "PreparedPlan",
    "ReconcileOptions",
    "ReconcilePorts",
    "SavedPlan",
    "ValidationMode",
    "apply",
    "check_approved",
    "check_digest",
    "note_drift",
    "observe",
    "prepare",
    "preview",
    "reconcile_cluster",
    "refuse_nothing",
    "rollback_orders",
    "withhold",
]
