"""The job ``simulate``: the effect of changed limits on the recorded use of many clusters; writes ``impact_row``."""

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.base.protocols import Progress
from reconciler.evidence.spark.tables import bounded_rows, reader, unit_writer
from reconciler.evidence.spark.tables.time_window import TimeWindow
from reconciler.evidence.spark.usage import impact_query, impact_summary, simulation
from reconciler.evidence.spark.usage.candidate_plans import (
    CandidateLimits,
    SimulationRequest,
)
from reconciler.evidence.spark.usage.series_blocks import SampleFiles
from reconciler.evidence.store import recorded_window
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.recorded_window import RecordedWindow
from reconciler.usage.impact.result_rows import Simulation
from reconciler.usage.tables import IMPACT_ROW

MOST_BROADCAST: Final = 500_000
"""Maximum number of series for a broadcast join; more are joined by a shuffle, because executors must keep them in memory."""


def simulated(
    spark: SparkSession, lake: Lake, work: SimulationRequest, progress: Progress
) -> Simulation:
    """Simulate, commit all rows, and report the worst.

    Raises:
        LakeError: The lake cannot be read or written.
    """
    progress("reading the lake", 0, 0)
    windows = [
        recorded_window.opened(lake, candidate.cluster_id, work.from_ms, work.to_ms)
        for candidate in work.candidates
    ]
    notes = tuple(window.note(lake, work.source, work.now_ms) for window in windows)
    counting = [pair for pair in zip(work.candidates, windows, strict=True) if not pair[1].reason]
    if not counting:
        return Simulation(evidence=notes, rows=())
    samples = SampleFiles(
        spark=spark,
        lake=lake,
        units=tuple(unit for _, window in counting for unit in window.samples),
        from_ms=work.from_ms,
        to_ms=work.to_ms,
    )
    changes = {window.cluster_id: _change(candidate, window) for candidate, window in counting}
    asked_rows = impact_query.questions(samples.series(), changes).persist()
    try:
        progress("new limits", 0, 0)
        broadcast = fits(asked_rows)
        impact_rows = simulation.impacts(
            samples.runs(simulation.series_of(asked_rows) if broadcast else None),
            asked_rows,
            changes,
            work.day,
            broadcast=broadcast,
            consumers=work.policy.consumers,
        )
        manifests = unit_writer.commit_results(
            lake,
            impact_rows,
            IMPACT_ROW,
            changes,
            span=TimeWindow(from_ms=work.from_ms, to_ms=work.to_ms),
            progress=progress,
            snapshots={window.cluster_id: window.snapshot_id for _, window in counting},
        )
        progress("worst results", 0, 0)
        impact_rows = reader.of(spark, lake, IMPACT_ROW, manifests).persist()
        try:
            return impact_summary.simulation(
                impact_rows, asked_rows, notes, work.policy, max_rows=work.most
            )
        finally:
            impact_rows.unpersist()
    finally:
        asked_rows.unpersist()


def fits(questions: DataFrame) -> bool:
    """Whether the series to read are few enough for a broadcast to every executor; one row may list thousands of old buckets."""
    requests = questions.where(fn.col("item") == impact_query.ASKED)
    parts = requests.agg(fn.coalesce(fn.sum(fn.size("parts")), fn.lit(0)).alias("parts"))
    return all(row["parts"] <= MOST_BROADCAST for row in bounded_rows.rows(parts, 1, "sums"))


def _change(candidate: CandidateLimits, window: RecordedWindow) -> impact_query.ClusterChange:
    return impact_query.ClusterChange(
        max_gap_ms=window.cadence.max_gap_ms,
        before=window.state,
        after=candidate.after(window.state),
        recorded=window.limits.recorded(window.cluster_id),
    )
