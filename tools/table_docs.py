"""Generates ``docs/tables.md`` from ``usage.tables``, the dialects and the counters: ``python -m tools.table_docs --write`` or ``--check``."""

import sys
from collections.abc import Iterator
from typing import Final

from reconciler.usage.tables import TABLES, Column, ColumnKind, Table
from tools import modes, telemetry_docs

PATH: Final = "docs/tables.md"

_HEAD: Final = """\
<!-- Generated from reconciler/usage/tables.py and reconciler/evidence/ingest by `python -m tools.table_docs --write`. -->
# Tables of recorded use

For people who read recorded use with DuckDB, Polars, Spark SQL or any other engine. [Set up recorded use](recorded-use-operations.md) says how the tables come about.

A table is a folder of Parquet files in Hive layout, with one file for each cluster and day (UTC):

```
usage_sample/cluster_id=4L6g3nShT-eMCtK--X86sw/day=2026-11-21/part.parquet
```

- `kquota usage files TABLE --lake LAKE` prints the addresses of the files, one on a line; `--cluster-id`, `--from` and `--to` choose some.
- A file is replaced whole. Nothing else in the folders is a part of the table; names that begin with a dot are locks of writers on a disk.
- `cluster_id` and `day` are in the folders and in the files. Absent names are `""`, not null. Times are milliseconds since 1970, UTC.
- Rows are sorted by the key, in row groups of 65,536, so that engines read few of them for one client. Text is dictionary-encoded, pages are compressed with zstd.
- A *unit* of `rate_units`, `limit_units` and the like is one byte per second for `produce` and `fetch`; otherwise a millionth: of a percent of a thread (`request`), of a partition mutation per second (`controller_mutation`), of a connection per second (`ip`).

## Examples

Who sent how much, by cluster and hour (UTC), in the folder that `kquota usage ingest --lake ./lake` wrote. Type it into the shell of [DuckDB](https://duckdb.org), or `pip install duckdb` and print `duckdb.sql(TEXT)`:

```sql
select "user", client_id, date_trunc('hour', epoch_ms(ts_ms)) as hour, sum(rate_units * dt_ms) // 1000 as bytes, cluster_id
from read_parquet('lake/usage_sample/*/*/part.parquet')
where quota_type = 'produce'
group by all order by bytes desc;
```

These lines make a table of two samples, as `kquota usage ingest` would, and read it with DuckDB and Polars:

<!-- tested -->
```python
from datetime import date

import duckdb
import polars
import pyarrow as pa

from reconciler.base.clock import SystemClock
from reconciler.evidence.store.files import table_store
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.stored_days import Unit, UnitContent
from reconciler.usage.tables import TARGET_UP

lake = Lake(table_store.opened("lake", create=True), clock=SystemClock())
day = date(2026, 11, 21)
unit = Unit(table=TARGET_UP, cluster_id="4L6g3nShT-eMCtK--X86sw", day=day)
rows = pa.table(
    {
        "cluster_id": [unit.cluster_id] * 2,
        "broker_id": ["1", "2"],
        "ts_ms": [1_795_305_630_000] * 2,
        "dt_ms": pa.array([30_000] * 2, pa.int32()),
        "up": [True, False],
        "day": [day] * 2,
    }
)
_ = lake.replace(unit, UnitContent(rows=rows))

files = "lake/target_up/*/*/part.parquet"
query = f"select broker_id, up, day from read_parquet('{files}', hive_partitioning = true)"
print(duckdb.sql(query).fetchall())
print(polars.scan_parquet(files, hive_partitioning=True).select("broker_id", "up").collect().rows())
```

With Spark SQL; in a bucket write `s3a://bucket/folder` for `s3://bucket/folder`:

```sql
create temporary view usage_sample using parquet options (path 'lake/usage_sample', recursiveFileLookup true);
select broker_id, max(rate_units) from usage_sample where `user` = 'alice' group by broker_id;
```

[A notebook](../examples/recorded-use/usage.ipynb) uses DuckDB and Polars, [an Airflow DAG](../examples/recorded-use/airflow_dag.py) fills the tables; so do [a CronJob](../examples/kubernetes/evidence-cronjob.yaml) and, with analyses on Spark, [a SparkApplication](../examples/spark/sparkapplication.yaml).

## Footer

The key `kquota` of a file's metadata is JSON: `unit` (table, cluster and day), `schema_version`, `run_id` and `made_ms` of the writer, `counts` (points and samples by [word](#counters), and `covered_ppm BROKER`: the share of the day in which that broker answered, in millionths),
`inputs` (what the day was made from: scrape interval, points by hour, digests) and `partial` (sentences about what is missing). `usage_sample` and `usage_5m` have `kquota.series`, too: a list of their series for kquota itself, all of which can be computed from the rows.

<!-- tested -->
```python
import json

import pyarrow.parquet as pq

folder = "lake/target_up/cluster_id=4L6g3nShT-eMCtK--X86sw/day=2026-11-21"
metadata = pq.read_metadata(f"{folder}/part.parquet")
print(json.loads(metadata.metadata[b"kquota"])["unit"])
```
"""

_DIALECTS: Final = """\
## Dialects

What the shipped [dialects](recorded-use-operations.md#6-dialects-and-days) read.
"""

_COUNTERS: Final = """\
## Counters

Words in the output of `kquota usage ingest` and in the footer of each day.
"""

_ABOUT: Final[dict[str, str]] = {
    "usage_sample": "What the clients of a bucket used on a broker, reading by reading.",
    "target_up": "Whether a broker answered a scrape: only then a silent bucket means zero.",
    "broker_sample": "The total rates of a broker.",
    "snapshot": "Snapshots of the limits of a cluster.",
    "quota_entry": "The limits of each snapshot.",
    "usage_5m": "Use in intervals of five minutes, written with the samples of a day.",
    "usage_hist_d": "Use of a day as a histogram, written with the samples of a day.",
    "impact_row": "Results of `kquota usage simulate`: a bucket on a broker before and after a change.",
    "recommendation": "Results of `kquota usage recommend`.",
    "capacity_row": "Results of `kquota usage capacity`: the budget of a broker and its commitment.",
    "usage_row": "Results of `kquota usage show`: use of a bucket on a broker over a window.",
    "noisy_row": "Results of `kquota usage capacity`: buckets that used more than a fair share in a hot interval.",
}

_COLUMNS: Final[dict[str, str]] = {
    "cluster_id": "Kafka's cluster id",
    "day": "UTC; of results the last day of their window",
    "quota_type": "`produce`, `fetch`, `request`, `controller_mutation` or `ip`",
    "group_kind": "which names the bucket has: `user`, `client`, `pair`, `ip` or `none`",
    "user": "principal without its type, decoded",
    "client_id": "client id, unquoted",
    "ip": "address in canonical form",
    "broker_id": "broker; `controller` for partition mutations, empty if no broker recorded it",
    "ts_ms": "time of the reading",
    "dt_ms": "time that it covers, in ms",
    "rate_units": "rate, units per second",
    "throttle_ms": "mean delay of throttled requests, in ms; 0 = none was throttled, null = not recorded",
    "censored": "whether the client wanted more than it got: `no`, `yes`, `unknown`",
    "up": "whether the broker answered",
    "bytes_in": "bytes per second from clients",
    "bytes_out": "bytes per second to clients",
    "replication_in": "bytes per second from other brokers",
    "replication_out": "bytes per second to other brokers",
    "request_idle_ppm": "idle share of the request handlers, in millionths",
    "snapshot_id": "digest of the snapshot",
    "observed_at_ms": "time of the snapshot",
    "complete": "whether it has all limits",
    "entries": "number of its limits",
    "user_kind": "`named`, `default`, `absent` or `foreign`",
    "client_kind": "the same for the client id",
    "ip_kind": "the same for the address",
    "entity_json": "the entity as canonical JSON, without loss",
    "quota_key": "Kafka's name of the key",
    "value": "the value as Kafka has it",
    "quota_units": "the value in units; null unless it is finite",
    "value_state": "`finite`, `unlimited` (10^13 units or more) or `invalid`",
    "source": "where the snapshot came from",
    "bucket_ms": "begin of the five minutes",
    "n": "number of samples",
    "sum_dt_ms": "covered time, in ms",
    "sum_units": "units that arrived",
    "max_rate_units": "largest rate, units per second",
    "throttled_samples": "samples with a delay",
    "throttled_ms": "time in which the broker recorded throttling, in ms; null = throttle times were not recorded",
    "censored_ms": "time in which clients wanted more than was recorded, in ms",
    "bucket": "0 for a rate of 0; bucket i holds the whole numbers from 2^((i-1)/32) to below 2^(i/32)",
    "n_dt_ms": "time in this bucket, in ms",
    "any_name": "whether the row stands for many buckets whose names are unknown",
    "before_units": "limit before, units per second; null = unlimited",
    "after_units": "limit after, units per second; null = unlimited",
    "source_entity": "the entity of that limit as canonical JSON; empty = none",
    "answer": "how far the recorded series determine the use of the bucket",
    "verdict": "`worse`, `better`, `same`, or why there is none",
    "bound": "relation of the figures after the change to the true values",
    "model": "how a broker treats use above the limit",
    "before_throttled_ms": "throttled time under the limit before, in ms",
    "before_max_delay_ms": "worst delay under the limit before, in ms",
    "observed_throttled_ms": "throttled time that the broker recorded, in ms",
    "after_throttled_ms": "throttled time under the limit after, in ms",
    "after_max_delay_ms": "worst delay under the limit after, in ms",
    "after_over_timeout_ms": "time with a delay above 120 s, in ms",
    "delayed_units": "units that are delayed",
    "unfinished": "sessions that end with a backlog",
    "covered_ms": "time that the samples cover, in ms",
    "why": "one sentence, empty if the answer is exact",
    "worst_throttled_ms": "throttled time in the worst case, in ms, if the bound is `between`",
    "worst_max_delay_ms": "worst delay in the worst case, in ms, if the bound is `between`",
    "tier": "name of the tier",
    "advice": "`change`, `keep`, `insufficient` or `refused`",
    "current_units": "current limit; null = unlimited",
    "target_units": "recommended limit",
    "needed_units": "smallest limit that meets the promise, before any rule",
    "lower_units": "smallest that meets it at twice the share",
    "upper_units": "smallest that meets it at half the share",
    "worst_week_units": "largest limit that a single week needed",
    "peak_units": "largest rate before the held-out week",
    "train_share_ppm": "throttled share of the time before the held-out week, in millionths",
    "train_max_delay_ms": "worst delay before the held-out week, in ms",
    "test_share_ppm": "throttled share of the held-out week, in millionths",
    "test_max_delay_ms": "worst delay of the held-out week, in ms",
    "confidence_ppm": "covered share of the window, of the broker with the least, in millionths",
    "censored_ppm": "share of the time in which demand was higher than recorded, in millionths",
    "rules": "rules that changed the target, in order",
    "evidence_ms": "time from the first to the last sample, in ms",
    "samples": "number of samples",
    "brokers": "number of brokers",
    "direction": "`ingress` or `egress`",
    "budget_units": "smallest rate left for clients, bytes per second; null = unknown",
    "committed_ppm": "sum of all limits over the budget, in millionths",
    "coincident_ppm": "rate served to all clients over the budget, 99.9th percentile of the time, in millionths",
    "overload_ms": "time in which the served rate exceeded the budget, in ms",
    "unattributed_ppm": "bytes of no bucket, of all bytes, in millionths",
    "basis": "`measured`, or `no_data` without capacity or replication",
    "limit_units": "limit at the end of the window, units per second; null = unlimited",
    "p50_units": "rate that is not exceeded in 50 % of the time",
    "p95_units": "rate that is not exceeded in 95 % of the time",
    "p99_units": "rate that is not exceeded in 99 % of the time",
    "state": "`unused`, `idle`, `used`, `near_limit`, `throttled` or `no_data`",
    "fair_units": "part of the rate within a fair share, bytes per second",
    "excess_units": "rest of the rate, bytes per second",
}

_TYPES: Final[dict[ColumnKind, str]] = {
    ColumnKind.TEXT: "string",
    ColumnKind.LONG: "int64",
    ColumnKind.INT: "int32",
    ColumnKind.DOUBLE: "double",
    ColumnKind.TRUTH: "boolean",
    ColumnKind.DAY: "date",
    ColumnKind.TEXTS: "list of string",
}


def page() -> str:
    """Return the page.

    Raises:
        KeyError: A table or a column has no description.
    """
    tables = (line for table in TABLES.values() for line in _section(table))
    return "\n".join(
        [
            _HEAD,
            *tables,
            _DIALECTS,
            telemetry_docs.dialects(),
            "",
            _COUNTERS,
            telemetry_docs.words(),
            "",
        ]
    )


def _section(table: Table) -> Iterator[str]:
    yield f"## `{table.name}`"
    yield ""
    yield f"{_ABOUT[table.name]} Key: {', '.join(f'`{name}`' for name in table.key)}."
    yield ""
    yield "| column | type | |"
    yield "| --- | --- | --- |"
    yield from map(_row, table.columns)
    yield ""


def _row(column: Column) -> str:
    null = ", null" if column.null else ""
    return f"| `{column.name}` | {_TYPES[column.kind]}{null} | {_COLUMNS[column.name]} |"


if __name__ == "__main__":
    sys.exit(modes.main(sys.argv[1:], modes.ROOT, lambda: {PATH: page()}))
