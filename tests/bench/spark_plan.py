"""T4: the plan of a fleet, three inputs of 2 million rows each from the same files: Spark, warm, against the core.

``python -m tests.bench.spark_plan [--rounds N] [--pairs N]``; rows of `harness.Row`. Every hundredth pair changes.
"""

import argparse
import datetime as dt
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench.harness import ROUNDS, Figures, Row, say, short
from tests.servers.processes import ScratchFolder

PAIRS, CLUSTERS = 2_000_000, 10
KEYS = ("producer_byte_rate", "consumer_byte_rate")
BAR = 0.6
DAY = dt.date(2026, 11, 1)
SIDES = ("live", "desired", "documents", "owned")


def make(pairs: int, folder: Path) -> None:
    """Entities of two limits; one in a hundred declares another value than the live one."""
    from pyspark.sql import functions as fn

    from reconciler.evidence.spark.runtime import session
    from reconciler.evidence.spark.runtime.session_settings import SessionSettings
    from reconciler.evidence.spark.tables import schemas
    from reconciler.usage.tables import DESIRED_DOCUMENT, DESIRED_ENTRY, OWNED_ENTRY, QUOTA_ENTRY

    with session.opened(SessionSettings(master="local[2]", memory="2g")) as spark:
        numbers = spark.range(0, pairs // len(KEYS), 1, 4).withColumnRenamed("id", "n")
        n = fn.col("n").cast("string")
        entities = numbers.withColumn(
            "cluster_id", fn.concat(fn.lit("c"), (fn.col("n") % CLUSTERS).cast("string"))
        )
        entities = entities.withColumn("user", fn.concat(fn.lit("user-"), n)).withColumn(
            "document", fn.concat(fn.lit("team/doc-"), n)
        )
        entities = entities.withColumn(
            "entity_json", fn.concat(fn.lit('[["user","'), fn.col("user"), fn.lit('"]]'))
        )
        pair = entities.withColumn("quota_key", fn.explode(fn.array(*map(fn.lit, KEYS))))
        value = (fn.col("n") % 1000 + 2000).cast("double")
        none = fn.lit(None)
        texts = {
            "client_id": "",
            "ip": "",
            "user_kind": "named",
            "client_kind": "absent",
            "ip_kind": "absent",
            "snapshot_id": "s",
            "value_state": "finite",
            "source": "bench",
            "path": "quotas.yaml",
            "deletion_policy": "",
            "intent_document": "",
            "intent_deletion_policy": "",
        }
        truths = (
            "halted",
            "orphaned",
            "intended",
            "overridden",
            "override_ends_with_document",
            "frozen",
        )
        nulls = (
            "intent_value",
            "intent_at_s",
            "override_value",
            "override_until_s",
            "override_before",
            "override_applied",
            "override_declared",
        )
        every = {
            **{name: fn.lit(text) for name, text in texts.items()},
            **{name: fn.lit(1) == 0 for name in truths},
            **{name: none.cast("double") for name in nulls},
            "observed_at_ms": fn.lit(1).cast("bigint"),
            "quota_units": value.cast("bigint"),
            "line": fn.lit(7),
            "day": fn.to_date(fn.lit(DAY.isoformat())),
            "applied": value,
            "value": value,
        }
        desired = every | {"value": fn.when(fn.col("n") % 100 == 0, value + 1).otherwise(value)}
        for name, frame, columns, table in (
            ("live", pair, every, QUOTA_ENTRY),
            ("desired", pair, desired, DESIRED_ENTRY),
            ("documents", entities, every, DESIRED_DOCUMENT),
            ("owned", pair, every, OWNED_ENTRY),
        ):
            own = frame.withColumns({k: v for k, v in columns.items() if k in table.names})
            schemas.conforming(own, table).write.parquet(str(folder / name))


def on_spark(folder: Path, rounds: int) -> list[float]:
    """Whole plans in one session, without the first one."""
    from reconciler.evidence.spark.fleet import plan
    from reconciler.evidence.spark.fleet.plan_inputs import PlanFrames
    from reconciler.evidence.spark.runtime import session
    from reconciler.evidence.spark.runtime.session_settings import SessionSettings
    from reconciler.quota.policy import Rules

    seconds = []
    with session.opened(SessionSettings(master="local[2]", memory="2g")) as spark:
        rules = {f"c{n}": Rules() for n in range(CLUSTERS)}
        for _ in range(rounds + 1):
            start = time.perf_counter()
            read = {name: spark.read.parquet(str(folder / name)) for name in SIDES}
            frames = PlanFrames(**read)
            different = plan.differences(frames).cache()
            _ = different.count()
            laid = plan.laid_out(different, frames)
            changes = plan.rows(plan.decided(laid, rules, now=2.0, day=DAY)).count()
            seconds.append(time.perf_counter() - start)
            _ = different.unpersist()
            say(f"  spark: {seconds[-1]:.2f} s, {changes:,} changes")
    return seconds[1:]


def on_core(folder: Path, rounds: int) -> list[tuple[float, float]]:
    """Seconds of reading the same files into the core's values and comparing them, and of the comparison alone."""
    import gc

    gc.set_threshold(1_000_000)  # as the command does
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        worlds = _worlds(folder)
        built = time.perf_counter()
        changes = sum(_planned(*world) for world in worlds)
        end = time.perf_counter()
        seconds.append((end - start, end - built))
        say(
            f"  core: {end - start:.2f} s, of which comparing {end - built:.2f} s, {changes:,} changes"
        )
        del worlds
    return seconds


def _worlds(folder: Path) -> list[tuple[object, object, object]]:
    import pyarrow.parquet as pq

    from reconciler.quota.entity import Entity
    from reconciler.quota.entity_forms import read_canonical
    from reconciler.quota.keys import COLUMN_OF, Key
    from reconciler.quota.ownership import Owner, OwnershipRecord, OwnershipRecords
    from reconciler.quota.planner.desired_state import Declaration, merge
    from reconciler.quota.state import QuotaState

    cache: dict[str, Entity] = {}

    def rows(name: str, *columns: str) -> Iterator[tuple[str, ...]]:
        table = pq.read_table(folder / name, columns=list(columns))
        return zip(*(table.column(column).to_pylist() for column in columns), strict=True)

    def subject(text: str) -> Entity:
        entity = cache.get(text)
        if entity is None:
            entity = cache[text] = read_canonical(text)
        return entity

    def columns_by_entity(side: Iterator[tuple[str, ...]]) -> dict[str, dict[Entity, list[object]]]:
        clusters: dict[str, dict[Entity, list[object]]] = {}
        for cluster, text, key, value, *more in side:
            limits = clusters.setdefault(cluster, {}).setdefault(subject(text), [None] * 5 + more)
            limits[COLUMN_OF[Key(key)]] = value
        return clusters

    pair = ("cluster_id", "entity_json", "quota_key")
    live = columns_by_entity(rows("live", *pair, "value"))
    desired = columns_by_entity(rows("desired", *pair, "value", "document", "path", "line"))
    owned = columns_by_entity(rows("owned", *pair, "applied", "document"))
    worlds = []
    for cluster in desired:
        records = {}
        for entity, (*applied, document) in owned[cluster].items():
            owner = Owner(document=str(document), since=1.0)
            records[entity] = OwnershipRecord(
                tuple(applied), tuple(owner if v is not None else None for v in applied)
            )
        worlds.append(
            (
                merge(
                    Declaration(
                        document=document, entity=entity, limits=tuple(limits), path=path, line=line
                    )
                    for entity, (*limits, document, path, line) in desired[cluster].items()
                ),
                OwnershipRecords(cluster_id=cluster, records=records),
                QuotaState(
                    limits={entity: tuple(limits) for entity, limits in live[cluster].items()}
                ),
            )
        )
    return worlds


def _planned(desired: object, owned: object, live: object) -> int:
    from reconciler.quota.planner.comparison import compare
    from reconciler.quota.policy import Rules
    from tests.evidence.spark.core_plan_rows import plan_rows

    return len(plan_rows(compare(desired=desired, owned=owned, live=live, rules=Rules(), now=2.0)))


def sample(*words: str) -> list[list[float]]:
    """The measurements of a separate process."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.spark_plan", *words],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=1800,
    )
    return [load if isinstance(load, list) else [load] for load in json.loads(done.stdout or "[]")]


def rows(rounds: int = ROUNDS, pairs: int = PAIRS) -> Iterator[Row]:
    with ScratchFolder.make("bench-plan-") as folder:
        say(f"making three sides of {pairs:,} pairs")
        sample("make", str(folder), str(pairs))
        spark, core = [], []
        for count in (rounds - rounds // 2, rounds // 2):  # two processes each, in turn
            if count:
                spark += sample("spark", str(folder), str(count))
                core += sample("core", str(folder), str(count))
        figures = Figures(samples=tuple(times[0] for times in spark))
        peer_figures = Figures(samples=tuple(times[0] for times in core))
        alone = Figures(samples=tuple(times[1] for times in core))
        yield Row(
            work=f"fleet plan, three sides of {pairs:,} pairs, warm",
            peer="core, the same files",
            figures=figures,
            peer_figures=peer_figures,
            unit="s wall",
            bar=f"<= {BAR}x",
            verdict=lambda value: value <= BAR,
            value=figures.median / peer_figures.median,
            notes=(f"comparing alone, with everything in memory: {short(alone.median)} s",),
        )


COMMANDS: dict[str, Callable[[Path, int], object]] = {
    "make": lambda folder, number: make(number, folder),
    "spark": on_spark,
    "core": on_core,
}

if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] in COMMANDS:
        answer = COMMANDS[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
        print(json.dumps(answer or []))
    else:
        words = argparse.ArgumentParser()
        words.add_argument("--rounds", type=int, default=ROUNDS)
        words.add_argument("--pairs", type=int, default=PAIRS)
        arguments = words.parse_args()
        for row in rows(arguments.rounds, arguments.pairs):
            print(
                row.work,
                "|",
                short(row.figures.median),
                row.figures.spread,
                "|",
                row.peer,
                short(row.peer_figures.median if row.peer_figures else 0.0),
                "|",
                f"{row.value:.2f}",
                row.bar,
                "met" if row.met else "MISSED",
                "|",
                *row.notes,
            )
