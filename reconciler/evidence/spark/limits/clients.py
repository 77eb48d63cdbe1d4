"""The observed clients: those of a list, and the tags of recorded use, each once."""

from collections.abc import Iterable, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.evidence.spark.limits.effective_limits import BUCKET, CLIENT
from reconciler.quota.precedence import Principal
from reconciler.usage.samples import DAY_MS

SEEN: Final = "user string, client_id string, ip string"


def of_list(
    spark: SparkSession, principals: Iterable[Principal], clusters: Sequence[str]
) -> DataFrame:
    """Return each client of a list in each cluster: ``effective_limits.CLIENT``."""
    rows = [
        (principal.user or "", principal.client_id or "", principal.ip or "")
        for principal in principals
    ]
    return _everywhere(spark.createDataFrame(rows, SEEN), clusters).dropDuplicates().select(*CLIENT)


def _everywhere(clients: DataFrame, clusters: Sequence[str]) -> DataFrame:
    """Repeat each row for each cluster; clusters are few."""
    return clients.withColumn("cluster_id", fn.explode(fn.array(*map(fn.lit, clusters))))


def tags_seen(five_minutes: DataFrame) -> DataFrame:
    """Return the tags with any use or throttling, with ``last_seen_ms``: ``effective_limits.BUCKET``, each once.

    Args:
        five_minutes: ``usage_5m`` of the look-back; intervals without use do not count as use.
    """
    used = five_minutes.where((fn.col("max_rate_units") > 0) | (fn.col("throttled_samples") > 0))
    return used.groupBy(*BUCKET).agg(fn.max("bucket_ms").alias("last_seen_ms"))


def tags_used(hist: DataFrame) -> DataFrame:
    """Return the tags with any use, with ``last_seen_ms``: the begin of their last day of use. ``effective_limits.BUCKET``, each once.

    Args:
        hist: ``usage_hist_d``; histogram bucket 0 means no use.
    """
    last = fn.unix_date(fn.max("day")).cast("bigint") * fn.lit(DAY_MS)
    return hist.where(fn.col("bucket") > 0).groupBy(*BUCKET).agg(last.alias("last_seen_ms"))


def types_heard(five_minutes: DataFrame) -> DataFrame:
    """Return the quota types that have telemetry: ``cluster_id`` and ``quota_type``."""
    return five_minutes.select("cluster_id", "quota_type").distinct()
