"""``make bench``: prints the table of docs/benchmarks.md as measured here and now; ``--write`` puts it there.

A missed bar is printed as missed. ``--only codec|plan|load|evidence|brokers|operator`` measures a part.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench import brokers, codec, evidence, harness, loading, operating
from tests.bench.harness import Figures, Row, interleaved, say, self_measured, short

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
MARK = "<!-- measured -->"


def at_least(bar: float) -> Callable[[float], bool]:
    return lambda value: value >= bar


def at_most(bar: float) -> Callable[[float], bool]:
    return lambda value: value <= bar


def faster(work: str, peer: str, ours: Figures, theirs: Figures, bar: float) -> Row:
    """How many times faster than a peer, by the medians of CPU seconds."""
    return Row(
        work=work, peer=peer, ours=ours, theirs=theirs, unit="s CPU", bar=f">= {bar:g}x faster",
        verdict=at_least(bar), value=theirs.median / ours.median,
    )  # fmt: skip


def cost(work: str, peer: str, ours: Figures, theirs: Figures, bar: float, unit: str) -> Row:
    """What part of a peer's cost, by the medians."""
    return Row(
        work=work, peer=peer, ours=ours, theirs=theirs, unit=unit, bar=f"<= {bar:g}x",
        verdict=at_most(bar), value=ours.median / theirs.median,
    )  # fmt: skip


def codec_rows() -> Iterator[Row]:
    with tempfile.NamedTemporaryFile(prefix="describe-", suffix=".bin") as body:
        codec.describe_answer(Path(body.name))
        say("decode a describe answer of 100,000 entries")
        taken = interleaved(
            {name: self_measured("decode", name, body.name) for name in codec.DECODERS}
        )
    for peer, bar in (("kafka-python", 6.0), ("kio", 3.0)):
        yield faster(
            "decode 100k entries to the planner's state",
            peer,
            taken["ours"]["cpu"],
            taken[peer]["cpu"],
            bar,
        )
    peak = taken["ours"]["peak_mb"]
    yield Row(
        work="memory of that decode, without the answer itself", peer="", ours=peak, theirs=None, unit="MB",
        bar="<= 60 MB", verdict=at_most(60), value=peak.median,
    )  # fmt: skip
    say("encode 10,000 entities with 3 operations each")
    taken = interleaved({name: self_measured("encode", name) for name in codec.ENCODERS})
    for peer, bar in (("kafka-python", 8.0), ("kio", 12.0)):
        yield faster(
            "encode 10k entities x 3 operations",
            peer,
            taken["ours"]["cpu"],
            taken[peer]["cpu"],
            bar,
        )


def plan_rows() -> Iterator[Row]:
    say("plan 100,000 desired against 100,000 observed entities")
    taken = interleaved({name: self_measured("plan", name) for name in ("ours", "plain loop")})
    yield cost(
        "plan 100k against 100k, 1 % changed", "one plain loop", taken["ours"]["cpu"], taken["plain loop"]["cpu"],
        3.0, "s CPU",
    )  # fmt: skip


def load_rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="manifests-") as folder:
        loading.write_manifests(Path(folder))
        say("load 10,000 documents")
        taken = interleaved(
            {name: self_measured("load", name, folder) for name in loading.CANDIDATES}
        )
    yield cost(
        "load 10k documents with provenance", "yaml.CSafeLoader alone", taken["ours"]["cpu"],
        taken["yaml.CSafeLoader"]["cpu"], 1.6, "s CPU",
    )  # fmt: skip


def broker_rows() -> Iterator[Row]:
    with brokers.workspace() as (space, _):
        for work, peer, candidates in (
            (
                "apply a saved plan of 10k x 3: validated, applied, verified",
                "Java AdminClient",
                brokers.saved_plan,
            ),
            ("the same from YAML", "Java, SnakeYAML", brokers.from_yaml),
            ("a no-op plan of 10k documents", "Java, SnakeYAML", brokers.no_op_plan),
        ):
            say(work)
            taken = interleaved(candidates(space), warmup=True)
            yield cost(work, peer, taken["ours"]["wall"], taken["java"]["wall"], 1.0, "s wall")
    counted = brokers.requests()
    say(f"requests of one apply: {counted}")
    for name, most in (("validate-only", 16), ("alters", 16), ("full describes", 2)):
        figures = Figures(samples=(float(counted[name]),))
        yield Row(
            work=f"requests for 10k x 3 at one level: {name}", peer="", ours=figures, theirs=None, unit="requests",
            bar=f"<= {most}", verdict=at_most(most), value=figures.median,
        )  # fmt: skip
    polls = Figures(samples=(float(counted["filtered describes"]),))
    yield Row(
        work="requests for 10k x 3 at one level: filtered polls", peer="", ours=polls, theirs=None, unit="requests",
        bar="counted apart", verdict=lambda _: True, value=polls.median,
    )  # fmt: skip


def evidence_rows() -> Iterator[Row]:
    work = "T5: preview with evidence, one tenant, 14 d at 30 s, 6 brokers, whole process"
    say(work)
    with evidence.workspace() as candidates:
        taken = interleaved(candidates, warmup=True)
    wall = taken["with"]["wall"]
    yield Row(
        work=work, peer="the same without evidence", ours=wall, theirs=taken["without"]["wall"], unit="s wall",
        bar="<= 3 s", verdict=at_most(3), value=wall.median,
    )  # fmt: skip


def operator_rows() -> Iterator[Row]:
    work = f"operator: {operating.RESOURCES:,} resources to Ready"
    peer = "handlers of Kopf's tutorial"
    say(work)
    with operating.workspace() as bench:
        taken = interleaved(bench.candidates(), rounds=operating.ROUNDS)
        for name, counted in bench.counted.items():
            say(f"writes of {name}: {operating.listed(counted[-1])}")
    ours, theirs = taken["ours"], taken["tutorial"]
    yield cost(work, peer, ours["wall"], theirs["wall"], 0.5, "s wall")
    limits = {"statuses": operating.RESOURCES, "others": 3 * ours["batches"].median}
    for what, most in limits.items():
        unit = "status writes" if what == "statuses" else "other writes"
        yield Row(
            work=f"{work}: {unit}, Leases apart", peer=peer, ours=ours[what], theirs=theirs[what], unit=unit,
            bar=f"<= {most:g}", verdict=at_most(most), value=ours[what].median,
        )  # fmt: skip
    yield Row(
        work=f"{work}: most memory", peer=peer, ours=ours["peak_mb"], theirs=theirs["peak_mb"], unit="MB",
        bar="<= 150 MB", verdict=at_most(150), value=ours["peak_mb"].median,
    )  # fmt: skip
    for what, figure in (("leads", "takeover"), ("has made its first pass", "takeover_pass")):
        yield Row(
            work=f"{work}: the leader is killed, a standby {what} after", peer="", ours=ours[figure], theirs=None,
            unit="s", bar="measured", verdict=lambda _: True, value=ours[figure].median,
        )  # fmt: skip


PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    "codec": codec_rows,
    "plan": plan_rows,
    "load": load_rows,
    "evidence": evidence_rows,
    "brokers": broker_rows,
    "operator": operator_rows,
}


def table(rows: list[Row]) -> str:
    lines = [
        "| work | against | ours (median, range) | theirs | ratio | bar | |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        theirs = f"{short(row.theirs.median)} ({row.theirs.spread})" if row.theirs else ""
        value = f"{row.value:.2f}" if row.theirs and "x" in row.bar else short(row.value)
        lines.append(
            f"| {row.work} | {row.peer} | {short(row.ours.median)} {row.unit} ({row.ours.spread}) | {theirs}"
            f" | {value} | {row.bar} | {'met' if row.met else '**missed**'} |"
        )
    return "\n".join(lines)


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
        f"medians of {harness.ROUNDS} interleaved rounds ({operating.ROUNDS} for the operator, on the sandbox broker)"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument(
        "--write", action="store_true", help="put the table into docs/benchmarks.md"
    )
    chosen = parser.parse_args()
    rows = [
        row
        for name, part in PARTS.items()
        if not chosen.only or name in chosen.only
        for row in part()
    ]
    text = f"{machine()}\n\n{table(rows)}\n"
    print(text)
    if chosen.write:
        page = PAGE.read_text(encoding="utf-8")
        head, _, _ = page.partition(MARK)
        PAGE.write_text(f"{head}{MARK}\n\n{text}", encoding="utf-8")
    missed = [row for row in rows if not row.met]
    if missed:
        print(f"{len(missed)} of {len(rows)} bars missed", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
