"""Writes the sums and histograms of a day beside its samples."""

import hashlib
import json
from collections.abc import Callable, Mapping

import pyarrow as pa

from reconciler.evidence.analysis import rollup
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.stored_days import StoredDay, Unit, UnitContent
from reconciler.usage.tables import USAGE_SAMPLE


def write(lake: Lake, samples: StoredDay, origin: Mapping[str, str]) -> None:
    """Write the sums and histograms of a day of samples, unless those that are stored are of these samples.

    Args:
        origin: What determined the samples.

    Raises:
        LakeConflict: Other writers were first on every attempt.
        LakeError: The lake cannot be read or written.
    """
    digest = hashlib.sha256(json.dumps(dict(origin)).encode()).hexdigest()
    inputs = {USAGE_SAMPLE.name: digest, "rule": rollup.RULE}
    for table, rows in rollup.ROLLUPS:

        def content(
            after: StoredDay | None, rows: Callable[[pa.Table], pa.Table] = rows
        ) -> UnitContent | None:
            if after is not None and after.inputs == inputs:
                return None
            read_rows = lake.read([samples], table=USAGE_SAMPLE)
            return UnitContent(rows=rows(read_rows), inputs=inputs, partial=samples.partial)

        unit = Unit(table=table, cluster_id=samples.unit.cluster_id, day=samples.unit.day)
        _ = lake.update(unit, content)
