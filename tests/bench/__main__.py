"""``make bench``: measures and prints the tables of tests/bench/benchmarks.md; ``--write`` writes them there.

A bar that is not met is printed as missed. ``--only PART`` measures a part and writes its table only.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench import (
    brokers,
    codec,
    documents,
    evidence,
    fleet,
    operator_curve,
    operator_load,
    page,
    recorded,
    replay,
    sizing_fleet,
)
from tests.bench.harness import (
    Figures,
    Row,
    alone,
    at_most,
    cost,
    interleaved,
    say,
    self_measured,
    wall_of,
)


def at_least(bar: float) -> Callable[[float], bool]:
    return lambda value: value >= bar


def faster(work: str, peer: str, figures: Figures, peer_figures: Figures, bar: float) -> Row:
    """How many times faster than a peer, by the medians of CPU seconds."""
    return Row(
        work=work,
        peer=peer,
        figures=figures,
        peer_figures=peer_figures,
        unit="s CPU",
        bar=f">= {bar:g}x faster",
        verdict=at_least(bar),
        value=peer_figures.median / figures.median,
    )


def codec_rows() -> Iterator[Row]:
    with tempfile.NamedTemporaryFile(prefix="describe-", suffix=".bin") as body:
        codec.describe_answer(Path(body.name))
        say("decode a describe answer of 100,000 entries")
        results = interleaved(
            {name: self_measured("decode", name, body.name) for name in codec.DECODERS}
        )
    for peer, bar in (("kafka-python", 6.0), ("kio", 3.0)):
        yield faster(
            "decode 100k entries to the planner's state",
            peer,
            results["ours"]["cpu"],
            results[peer]["cpu"],
            bar,
        )
    peak = results["ours"]["peak_mb"]
    yield alone("memory of that decode, without the answer itself", peak, "MB", most=60)
    say("encode 10,000 entities with 3 operations each")
    results = interleaved({name: self_measured("encode", name) for name in codec.ENCODERS})
    for peer, bar in (("kafka-python", 8.0), ("kio", 12.0)):
        yield faster(
            "encode 10k entities x 3 operations",
            peer,
            results["ours"]["cpu"],
            results[peer]["cpu"],
            bar,
        )


def import_rows() -> Iterator[Row]:
    say("import the client library")
    figures = interleaved(
        {name: wall_of([sys.executable, "-I", "-c", code]) for name, code in IMPORTS.items()},
        warmup=True,
    )
    library, parts = figures["library"], figures["parts"]
    yield alone("a process that imports reconciler.kafka", library["wall"], "s wall", most=0.12)
    yield alone("a process that imports asyncio and ssl", parts["wall"], "s wall")


IMPORTS = {"library": "import reconciler.kafka", "parts": "import asyncio, ssl"}


def plan_rows() -> Iterator[Row]:
    say("plan 100,000 desired against 100,000 observed entities")
    results = interleaved({name: self_measured("plan", name) for name in ("ours", "plain loop")})
    yield cost(
        "plan 100k against 100k, 1 % changed",
        "one plain loop",
        results["ours"]["cpu"],
        results["plain loop"]["cpu"],
        3.0,
        "s CPU",
    )


def load_rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="manifests-") as folder:
        documents.write_manifests(Path(folder))
        say("load 10,000 documents")
        results = interleaved(
            {name: self_measured("load", name, folder) for name in documents.CANDIDATES}
        )
    yield cost(
        "load 10k documents with provenance",
        "yaml.CSafeLoader alone",
        results["ours"]["cpu"],
        results["yaml.CSafeLoader"]["cpu"],
        1.6,
        "s CPU",
    )


def broker_rows() -> Iterator[Row]:
    with brokers.workspace() as (space, _):
        peer, apply = "Java, SnakeYAML", "10k x 3: planned, validated, applied, verified"
        say(apply)
        results = interleaved(brokers.applies(space), warmup=True)
        java = results["java"]
        for name, work, bars in (
            ("yaml", f"apply {apply}", {"wall": 1.0, "cpu": 0.7}),
            ("saved", f"apply a saved plan of {apply}", {"wall": 1.05}),
        ):
            for unit, bar in bars.items():
                yield cost(
                    f"{work}: {unit}", peer, results[name][unit], java[unit], bar, f"s {unit}"
                )
        work = "a no-op plan of 10k documents"
        say(work)
        results = interleaved(brokers.no_op_plan(space), warmup=True)
        yield cost(work, peer, results["ours"]["wall"], results["java"]["wall"], 0.65, "s wall")
    counted = brokers.requests()
    say(f"requests of one apply: {counted}")
    for name, most in (
        ("validate-only", 16),
        ("alters", 16),
        ("full describes", 2),
        ("polls", None),
    ):
        figures = Figures(samples=(float(counted[name]),))
        work = f"requests for 10k x 3 at one level: {name}"
        yield alone(work, figures, "requests", most=most)


def fleet_rows() -> Iterator[Row]:
    say("one cluster at 40 ms: round trips of a plan")
    counted = fleet.round_trips()
    yield alone("plan of one cluster: round trips", counted, "round trips", most=4)
    for number in fleet.SIZES:
        work = (
            f"plan --all: {number:,} clusters at 40 ms, {number // fleet.HUNG_EVERY} of them hung"
        )
        say(work)
        figures = fleet.sampled(number)
        has_bar = number == fleet.BAR_SIZE
        for figure, name, unit, most in (
            ("beyond", "beyond one timeout", "s wall", 10),
            ("cpu", "CPU of the command", "s CPU", None),
            ("peak_mb", "most memory", "MB", 200),
        ):
            yield alone(f"{work}: {name}", figures[figure], unit, most=most if has_bar else None)


def tutorial_rows() -> Iterator[Row]:
    work = f"operator: {operator_load.RESOURCES:,} resources to Ready"
    peer = "handlers of Kopf's tutorial"
    say(work)
    with operator_load.workspace() as bench:
        results = interleaved(bench.candidates(), rounds=operator_load.ROUNDS)
    own_figures, peer_figures = results["ours"], results["tutorial"]
    yield cost(work, peer, own_figures["wall"], peer_figures["wall"], 0.5, "s wall")
    yield Row(
        work=f"{work}: status writes",
        peer=peer,
        figures=own_figures["statuses"],
        peer_figures=peer_figures["statuses"],
        unit="status writes",
        bar=f"<= {operator_load.STATUSES:,}",
        verdict=at_most(operator_load.STATUSES),
        value=own_figures["statuses"].median,
    )


PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    "codec": codec_rows,
    "import": import_rows,
    "plan": plan_rows,
    "load": load_rows,
    "brokers": broker_rows,
    "fleet": fleet_rows,
    "tutorial": tutorial_rows,
    "evidence": evidence.rows,
    "commands": recorded.rows,
    "engines": lambda: replay.rows(replay.SIZES),
    "places": replay.place_rows,
    "sizing": sizing_fleet.rows,
}

ENGINES, CURVE = "engines", "operator"
"""A part whose table has a column for each count of documents."""


def machine() -> str:
    def first(command: list[str]) -> str:
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        return (answer.stdout + answer.stderr).strip().splitlines()[0]

    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores ({cpu}), {memory:.0f} GiB; Python {platform.python_version()}; "
        f"{first(['java', '-version'])}; Kafka {brokers.VERSION} on the same machine; "
        f"{time.strftime('%Y-%m-%d', time.gmtime())}, load {os.getloadavg()[0]:.1f} at the end"
    )


def measured_part(part: str, counts: list[int] | None) -> tuple[str, list[Row]]:
    """The table of a part, and its rows.

    Args:
        part: Name of the part.
        counts: Columns of the operator's table, or numbers of samples of the engines; ``None`` = all.
    """
    if part == CURVE:
        rows = list(operator_curve.curve_rows(counts or operator_curve.COUNTS))
        before = page.between(page.PAGE.read_text(encoding="utf-8"), f"measured: {part}")
        works = [figure.work for figure in operator_curve.FIGURES]
        return page.curve(rows, works, before), rows
    rows = list(replay.rows(counts) if part == ENGINES and counts else PARTS[part]())
    return page.table(rows), rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--only", choices=[*PARTS, CURVE], action="append")
    parser.add_argument(
        "--size",
        type=int,
        action="append",
        help="documents of the operator, samples of the engines; repeatable; default: all",
    )
    parser.add_argument(
        "--write", action="store_true", help="put the tables into tests/bench/benchmarks.md"
    )
    arguments = parser.parse_args()
    missed = 0
    for part in arguments.only or [*PARTS, CURVE]:
        table, rows = measured_part(part, arguments.size)
        text = f"{machine()}\n\n{table}"
        print(f"\n{text}", flush=True)
        missed += sum(not row.met for row in rows)
        if arguments.write:
            page.write(f"measured: {part}", text)
    print(f"{missed} bars missed", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
