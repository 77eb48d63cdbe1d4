"""Tables of a lake as frames: exactly the files that manifests list, in any folder."""

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
    """Return the rows of a table with all its columns, each nullable, as Spark reads files.

    Args:
        spark: Any session; its machines must reach the files.
        lake: The lake.
        table: The table.
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
