"""Who was seen: clients of a list, and the tags that recorded use was counted under, each once."""

import csv
from collections.abc import Iterable, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.errors import UsageError
from reconciler.evidence.spark.limits.effective_limits import BUCKET, CLIENT
from reconciler.evidence.spark.tables import bounded_rows
from reconciler.quota.precedence import Principal
from reconciler.usage.samples import DAY_MS

SEEN: Final = "user string, client_id string, ip string"
COLUMNS: Final = ("cluster_id", "user", "client_id", "ip")
"""What a file may say of a client; its first line names those that it has."""


def of_list(
    spark: SparkSession, principals: Iterable[Principal], clusters: Sequence[str]
) -> DataFrame:
    """Each client of a list, in each cluster: ``resolve.CLIENT``."""
    rows = [
        (principal.user or "", principal.client_id or "", principal.ip or "")
        for principal in principals
    ]
    return _everywhere(spark.createDataFrame(rows, SEEN), clusters).dropDuplicates().select(*CLIENT)


def of_file(spark: SparkSession, path: str, clusters: Sequence[str]) -> DataFrame:
    """The clients of a CSV file that Spark reads itself, with the columns of :data:`COLUMNS` (any of them).

    Without ``cluster_id`` each client is asked about in each cluster; others than ``clusters`` are passed over.

    Raises:
        UsageError: Its first line does not name such columns.
    """
    lines = [row["value"] for row in bounded_rows.rows(spark.read.text(path).limit(1), 1, "lines")]
    head = [name.strip() for name in next(csv.reader(lines), [])] if lines else []
    if not head or set(head) - set(COLUMNS) or len(set(head)) != len(head):
        raise UsageError(
            f"{path}:1: the first line must name the columns, of {', '.join(COLUMNS)}",
            hint="user,client_id",
        )
    schema = ", ".join(f"{name} string" for name in head)
    # As Python's csv reads it: a quote is doubled and no backslash escapes anything; a wrong row ends the job.
    rows = spark.read.csv(
        path,
        schema=schema,
        header=True,
        escape='"',
        multiLine=True,
        mode="FAILFAST",
        enforceSchema=True,
    )
    listed_clients = rows.select(
        *(fn.coalesce(name, fn.lit("")).alias(name) for name in head),
        *(fn.lit("").alias(name) for name in COLUMNS[1:] if name not in head),
    )
    if "cluster_id" in head:
        clients_of_clusters = listed_clients.where(fn.col("cluster_id").isin(list(clusters)))
    else:
        clients_of_clusters = _everywhere(listed_clients, clusters)
    return clients_of_clusters.select(*CLIENT).dropDuplicates()


def _everywhere(clients: DataFrame, clusters: Sequence[str]) -> DataFrame:
    """In each cluster: a handful, so a row becomes as many."""
    return clients.withColumn("cluster_id", fn.explode(fn.array(*map(fn.lit, clusters))))


def tags_seen(five_minutes: DataFrame) -> DataFrame:
    """The tags under which anything was counted, with ``last_seen_ms``: ``resolve.BUCKET``, each once.

    Args:
        five_minutes: ``usage_5m`` of the look-back; silence of a bucket that once was there is no sign of life.
    """
    used = five_minutes.where((fn.col("max_rate_units") > 0) | (fn.col("throttled_samples") > 0))
    return used.groupBy(*BUCKET).agg(fn.max("bucket_ms").alias("last_seen_ms"))


def tags_used(hist: DataFrame) -> DataFrame:
    """The tags that anything was used under, with ``last_seen_ms``: the begin of the last such day. ``resolve.BUCKET``, each once.

    Args:
        hist: ``usage_hist_d``; histogram bucket 0 is no use at all.
    """
    last = fn.unix_date(fn.max("day")).cast("bigint") * fn.lit(DAY_MS)
    return hist.where(fn.col("bucket") > 0).groupBy(*BUCKET).agg(last.alias("last_seen_ms"))


def types_heard(five_minutes: DataFrame) -> DataFrame:
    """Which quota types have telemetry at all: ``cluster_id`` and ``quota_type``."""
    return five_minutes.select("cluster_id", "quota_type").distinct()
