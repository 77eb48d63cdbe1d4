"""Tables of a lake as frames: exactly the files that manifests name, whichever folder they lie in."""

import datetime as dt
from collections.abc import Collection, Iterable

from pyspark.sql import DataFrame, SparkSession

from reconciler.evidence.spark.tables import schemas
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.manifest import Manifest
from reconciler.usage.tables import Table


def frame(
    spark: SparkSession,
    lake: Lake,
    table: Table,
    clusters: Collection[str] | None = None,
    *,
    from_day: dt.date | None = None,
    to_day: dt.date | None = None,
) -> DataFrame:
    """The rows of a table; all its columns, each nullable, as Spark reads files.

    Args:
        spark: Any session; its machines must reach the files.
        lake: Where.
        table: Which table.
        clusters: Of these cluster ids; of all by default.
        from_day: The first day.
        to_day: The last day, included.

    Raises:
        LakeError: A manifest is damaged or of a version that this program does not read, or Spark cannot read there.
    """
    return of(spark, lake, table, lake.manifests(table, clusters, from_day, to_day))


def of(spark: SparkSession, lake: Lake, table: Table, manifests: Iterable[Manifest]) -> DataFrame:
    """The rows of some units of a table, as :func:`frame`; of none, a frame without rows.

    Nullable columns that came with this schema version are null in files of the one before: the reader looks columns up
    by name. The folders mean nothing, so Spark must not guess columns from their names.
    """
    paths = [lake.store.uri(file.path) for manifest in manifests for file in manifest.files]
    schema = schemas.struct(table)
    if not paths:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("recursiveFileLookup", "true").parquet(*paths)
