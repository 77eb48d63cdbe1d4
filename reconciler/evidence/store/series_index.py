"""The list of series in the footer of a day: which buckets were recorded by which brokers, without reading rows.

It is Arrow's stream format, compressed with zstd, as base64 after its size; all that it has can be computed from the rows.
"""

import base64
from typing import Final

import pyarrow as pa

from reconciler.errors import LakeError
from reconciler.evidence.store.files import arrow_tables
from reconciler.usage.tables import USAGE_5M, USAGE_SAMPLE, Table

MOST_BYTES: Final = 2**25
"""Maximum size of a list before compression: some 700,000 series. A list is decoded as a whole."""

KEY: Final = "kquota.series"
"""Its key in the footer."""

BUCKET: Final = ("group_kind", "user", "client_id", "ip")
"""The columns of a bucket besides its quota type."""

SERIES: Final = ("quota_type", *BUCKET, "broker_id")
"""The columns that distinguish the series of a cluster; files are sorted by them."""


def applies_to(table: Table) -> bool:
    """Whether the days of a table have a list: samples and their sums of five minutes."""
    return table in {USAGE_SAMPLE, USAGE_5M}


def written(rows: pa.Table) -> str:
    """Return the list of the series of rows as text: :data:`SERIES`, their ``rows``, ``first_ms`` and ``last_ms``.

    Raises:
        LakeError: There are too many.
    """
    at = "ts_ms" if "ts_ms" in rows.schema.names else "bucket_ms"
    kinds = ("count", "min", "max")
    groups = rows.group_by(list(SERIES), use_threads=False).aggregate(
        [(at, kind) for kind in kinds]
    )
    columns = [*SERIES, *(f"{at}_{kind}" for kind in kinds)]
    series = pa.table([groups.column(name) for name in columns], schema=_SCHEMA)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA) as stream:
        stream.write_table(series.sort_by([(name, "ascending") for name in SERIES]))
    content = sink.getvalue()
    if content.size > MOST_BYTES:
        raise LakeError(f"a day has too many series: {series.num_rows:,}")
    return f"{content.size}:{base64.b64encode(pa.compress(content, _CODEC)).decode()}"


def read(text: str) -> pa.Table:
    """Return the list of a footer; no rows for "".

    Raises:
        ValueError: It is not base64, has no size, or is too large.
        pa.ArrowException: It is not a list.
    """
    if not text:
        return _SCHEMA.empty_table()
    size, _, encoded = text.partition(":")
    if int(size) > MOST_BYTES:
        raise ValueError(f"a list of series of {int(size):,} bytes")
    content = pa.decompress(base64.b64decode(encoded, validate=True), int(size), _CODEC)
    with pa.ipc.open_stream(content) as stream:
        return stream.read_all().cast(_SCHEMA)


_CODEC: Final = "zstd"
_FIELDS: Final = arrow_tables.schema(USAGE_SAMPLE)
_SCHEMA: Final = pa.schema(
    [
        *(_FIELDS.field(name) for name in SERIES),
        pa.field("rows", pa.int64()),
        pa.field("first_ms", pa.int64()),
        pa.field("last_ms", pa.int64()),
    ]
)
