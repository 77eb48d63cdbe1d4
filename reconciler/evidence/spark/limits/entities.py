"""Entities as columns: which limits can be computed with."""

from pyspark.sql import Column
from pyspark.sql import functions as fn

from reconciler.quota.keys import COLUMNS
from reconciler.quota.patterns import FORMS


def is_known() -> Column:
    """Whether a row of ``quota_entry`` has a known key and a form of entity that Kafka's quota managers support."""
    kinds = fn.concat_ws(" ", "user_kind", "client_kind", "ip_kind")
    is_known_key = fn.col("quota_key").isin([str(key) for key in COLUMNS])
    return is_known_key & kinds.isin([" ".join(form) for form in FORMS])
