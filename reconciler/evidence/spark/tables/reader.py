"""Tables of a lake as frames: exactly the files that manifests list, in any folder."""

import datetime as dt
from collections.abc import Collection, Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.evidence.spark.tables import schemas
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.manifest import Manifest
from reconciler.evidence.store.quota_snapshots import SnapshotHeader
from reconciler.usage.samples import day_of
from reconciler.usage.tables import QUOTA_ENTRY, Table


def frame(
    spark: SparkSession,
    lake: Lake,
    table: Table,
    clusters: Collection[str] | None = None,
    *,
    from_day: dt.date | None = None,
    to_day: dt.date | None = None,
) -> DataFrame:
    """Return the rows of a table with all its columns, each nullable, as Spark reads files.

    Args:
        spark: Any session; its machines must reach the files.
        clusters: Cluster ids; all by default.
        from_day: The first day.
        to_day: The last day, inclusive.

    Raises:
        LakeError: A manifest is damaged or of an unsupported version, or Spark cannot read the store.
    """
    return of(spark, lake, table, lake.manifests(table, clusters, from_day, to_day))


def of(spark: SparkSession, lake: Lake, table: Table, manifests: Iterable[Manifest]) -> DataFrame:
    """Return the rows of some units of a table, as :func:`frame`; without units, a frame without rows.

    Columns that are new in this schema version are null in older files: Spark finds columns by name. Folder names carry no
    columns, so Spark must not infer any from them.
    """
    paths = [lake.store.uri(file.path) for manifest in manifests for file in manifest.files]
    schema = schemas.struct(table)
    if not paths:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("recursiveFileLookup", "true").parquet(*paths)


def limits_of_snapshots(
    spark: SparkSession, lake: Lake, snapshots: Mapping[str, SnapshotHeader]
) -> DataFrame:
    """Return the limits of one snapshot of each cluster: rows of ``quota_entry``, from one day of each.

    Raises:
        LakeError: The lake cannot be read.
    """
    if not snapshots:
        return of(spark, lake, QUOTA_ENTRY, ())
    days = {name: day_of(snapshot.observed_at_ms) for name, snapshot in snapshots.items()}
    units = lake.manifests(QUOTA_ENTRY, days, min(days.values()), max(days.values()))
    of_days = [
        manifest for manifest in units if manifest.unit.day == days[manifest.unit.cluster_id]
    ]
    snapshot_keys = spark.createDataFrame(
        [(name, snapshot.snapshot_id) for name, snapshot in snapshots.items()],
        "cluster_id string, snapshot_id string",
    )
    return of(spark, lake, QUOTA_ENTRY, of_days).join(
        fn.broadcast(snapshot_keys), ["cluster_id", "snapshot_id"], "left_semi"
    )
