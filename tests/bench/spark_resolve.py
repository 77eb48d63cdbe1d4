"""T3: 350,000 clients against 205,000 limits on one warm session, and the same with exploded candidates.

``python -m tests.bench.spark_resolve [--rounds N] [--clients N] [--limits N]``; rows of `harness.Row`.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.evidence.spark.limits import effective_limits
from reconciler.evidence.spark.runtime import session
from reconciler.evidence.spark.runtime.session_settings import SessionSettings
from reconciler.evidence.spark.tables import schemas
from reconciler.quota.keys import Key
from reconciler.usage.tables import QUOTA_ENTRY
from tests.bench.harness import ROUNDS, Row, interleaved, say, short
from tests.servers.processes import ScratchFolder

CLIENTS, LIMITS, CLUSTERS = 350_000, 205_000, 10
BAR = 8.0
KEY = str(Key.PRODUCER_BYTE_RATE)
SHAPES = (
    ("named", "named"),
    ("named", "default"),
    ("named", "absent"),
    ("default", "named"),
    ("absent", "named"),
)
DEFAULTS = (("default", "default"), ("default", "absent"), ("absent", "default"))


def write_tables(spark: SparkSession, clients: int, limits: int, folder: Path) -> None:
    """Clients of 10 clusters, some thousand users with some ids each; limits of all eight levels, mostly named."""
    each = limits // len(SHAPES)
    n = fn.col("id")
    frames = [limit_rows(spark.range(each), n, shape) for shape in SHAPES]
    frames += [limit_rows(spark.range(CLUSTERS), n, shape) for shape in DEFAULTS]
    limit_frame = frames[0]
    for frame in frames[1:]:
        limit_frame = limit_frame.unionByName(frame)
    schemas.conforming(
        limit_frame.dropDuplicates(["cluster_id", "entity_json"]), QUOTA_ENTRY
    ).coalesce(4).write.parquet(str(folder / "limits"))
    spark.range(0, clients, 1, 4).select(
        cluster(n),
        fn.concat(fn.lit("user-"), fn.floor(n / 7).cast("string")).alias("user"),
        fn.concat(fn.lit("client-"), (n % 50_000).cast("string")).alias("client_id"),
        fn.lit("").alias("ip"),
        fn.to_date(fn.lit("2026-11-01")).alias("day"),
    ).write.parquet(str(folder / "clients"))


def cluster(n: Column) -> Column:
    return fn.concat(fn.lit("c"), (n % CLUSTERS).cast("string")).alias("cluster_id")


def limit_rows(numbers: DataFrame, n: Column, shape: tuple[str, str]) -> DataFrame:
    user_kind, client_kind = shape
    user = fn.concat(fn.lit("user-"), n.cast("string")) if user_kind == "named" else fn.lit("")
    name = fn.concat(fn.lit("client-"), (n % 50_000).cast("string"))
    client_id = name if client_kind == "named" else fn.lit("")
    slots = [
        fn.concat(
            fn.lit(f'["{kind}",'),
            fn.concat(fn.lit('"'), value, fn.lit('"')) if is_ == "named" else fn.lit("null"),
            fn.lit("]"),
        )
        for kind, value, is_ in (("user", user, user_kind), ("client-id", client_id, client_kind))
        if is_ != "absent"
    ]
    value = ((n % 1000) + 1).cast("double")
    columns = {
        "snapshot_id": fn.lit("s"),
        "observed_at_ms": fn.lit(1).cast("bigint"),
        "user_kind": fn.lit(user_kind),
        "client_kind": fn.lit(client_kind),
        "ip_kind": fn.lit("absent"),
        "user": user,
        "client_id": client_id,
        "ip": fn.lit(""),
        "entity_json": fn.concat(fn.lit("["), fn.concat_ws(",", *slots), fn.lit("]")),
        "quota_key": fn.lit(KEY),
        "value": value,
        "quota_units": value.cast("bigint"),
        "value_state": fn.lit("finite"),
        "source": fn.lit("bench"),
        "day": fn.to_date(fn.lit("2026-11-01")),
    }
    return numbers.select(cluster(n), *(column.alias(name) for name, column in columns.items()))


def exploded(clients: DataFrame, limits: DataFrame) -> DataFrame:
    """The straightforward implementation: eight candidates per client, joined and then filtered."""
    parts = [
        ('[["user","', "user", '"],["client-id","', "client_id", '"]]'),
        ('[["user","', "user", '"],["client-id",null]]'),
        ('[["user","', "user", '"]]'),
        ('[["user",null],["client-id","', "client_id", '"]]'),
        ('[["user",null],["client-id",null]]',),
        ('[["user",null]]',),
        ('[["client-id","', "client_id", '"]]'),
        ('[["client-id",null]]',),
    ]
    candidates = [
        fn.struct(
            fn.lit(at).alias("level"),
            fn.concat(
                *(fn.col(word) if word in {"user", "client_id"} else fn.lit(word) for word in words)
            ).alias("entity_json"),
        )
        for at, words in enumerate(parts, 1)
    ]
    client_levels = clients.select(
        "cluster_id", "user", "client_id", fn.explode(fn.array(*candidates)).alias("one")
    ).select("cluster_id", "user", "client_id", "one.level", "one.entity_json")
    met = client_levels.join(
        limits.select("cluster_id", "entity_json", "value"), ["cluster_id", "entity_json"], "left"
    )
    return met.groupBy("cluster_id", "user", "client_id").agg(
        fn.min_by("value", fn.when(fn.col("value").isNotNull(), fn.col("level"))).alias("value")
    )


def timed(make: Callable[[], DataFrame]) -> Callable[[], float]:
    def run() -> float:
        start = time.perf_counter()
        make().write.format("noop").mode("overwrite").save()
        return time.perf_counter() - start

    return run


def rows(rounds: int = ROUNDS, clients: int = CLIENTS, limits: int = LIMITS) -> Iterator[Row]:
    with (
        ScratchFolder.make("bench-resolve-") as folder,
        session.opened(SessionSettings(master="local[2]", memory="2g")) as spark,
    ):
        say(f"making {clients:,} clients and {limits:,} limits")
        write_tables(spark, clients, limits, folder)

        def read(name: str) -> DataFrame:
            return spark.read.parquet(str(folder / name))

        counted = read("clients").count(), read("limits").count()
        results = interleaved(
            {
                "joins": timed(
                    lambda: effective_limits.principals(read("clients"), read("limits"))
                ),
                "exploded": timed(lambda: exploded(read("clients"), read("limits"))),
            },
            rounds=rounds,
            warmup=True,
        )
        figures, peer_figures = results["joins"]["s"], results["exploded"]["s"]
        yield Row(
            work=f"resolve {counted[0]:,} clients x {counted[1]:,} limits, four keys each, warm",
            peer="candidates exploded, one key, value only",
            figures=figures,
            peer_figures=peer_figures,
            unit="s wall",
            bar=f"<= {BAR} s",
            verdict=lambda value: value <= BAR,
            value=figures.median,
        )


if __name__ == "__main__":
    words = argparse.ArgumentParser()
    words.add_argument("--rounds", type=int, default=ROUNDS)
    words.add_argument("--clients", type=int, default=CLIENTS)
    words.add_argument("--limits", type=int, default=LIMITS)
    arguments = words.parse_args()
    for row in rows(arguments.rounds, arguments.clients, arguments.limits):
        print(
            row.work,
            "|",
            short(row.figures.median),
            row.figures.spread,
            "|",
            row.peer,
            short(row.peer_figures.median if row.peer_figures else 0.0),
            "|",
            row.bar,
            "met" if row.met else "MISSED",
        )
