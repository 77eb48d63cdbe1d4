"""From a recording of a real broker to the text of a pull request. Run by ``make pipeline``.

    python examples/pipeline.py                    everything, in a scratch folder
    python examples/pipeline.py --keep FOLDER      the same; lake, evidence, page and proposals stay there
    python examples/pipeline.py --recording 2      another of the eight recordings

Every command is printed as it would be typed, and the beginning of its output. Needs the extra ``usage``; no broker and
no Java. The forecast of the simulation is compared with the throttling that the broker then recorded for the same
clients under the same limits.
"""

import argparse
import contextlib
import gzip
import io
import json
import os
import shlex
import shutil
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RECORDINGS = ROOT / "tests" / "recording" / "fixture"
WIDTH = min(shutil.get_terminal_size((100, 24)).columns, 120)
APART = timedelta(hours=6)
COPIES = 61
"""A recommendation needs a fortnight, a recording has five minutes, so it is repeated every six hours."""
FIELDS = {"producer_byte_rate": "producerByteRate", "consumer_byte_rate": "consumerByteRate"}
SLOTS = {"user": "user", "client-id": "clientId"}
PROJECT = """\
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaProject
spec:
  manifests: [quotas]
  simulate: {stated}
---
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaCluster
metadata: {{name: recorded}}
spec:
  bootstrapServers: 127.0.0.1:9092        # never asked here
  expectedClusterId: {cluster_id}
  policy: Upsert
  guards: {{maxChangeFactor: 1000000000000000}}   # the limit of today is one that only switches the counting on
  telemetry:
    matchers: cluster="recorded"
    scrapeStep: 5s
    evidenceUri: {evidence}
    maxEvidenceAge: 876000h               # a recording is old
"""


@dataclass(slots=True)
class Pipeline:
    """A folder for a project and a lake, and the durations of commands."""

    folder: Path
    took: list[tuple[str, float]] = field(default_factory=list)

    def run(self, line: str, *, codes: Sequence[int] = (0,), most: int = 0) -> str:
        """Run a command in this process, show the first lines of its output, and return all of it."""
        from reconciler.cli.main import main as kquota  # noqa: PLC0415 - after the arguments are checked

        show_command(line)
        began = time.monotonic()
        output, messages = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(messages):
            code = kquota(shlex.split(line)[1:])
        self.took.append((line.split(" --", maxsplit=1)[0], time.monotonic() - began))
        check(code, codes, messages.getvalue())
        show(output.getvalue(), most)
        return output.getvalue()


def check(code: int, codes: Sequence[int], messages: str) -> None:
    """End the program if a command failed."""
    if code not in codes:
        print(messages, file=sys.stderr)
        raise SystemExit(f"exit code {code}")


def show_command(line: str) -> None:
    """Print a command; wrap it if it is longer than the width of the terminal."""
    lines = textwrap.wrap(
        f"$ {line}",
        WIDTH - 2,
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    print("\n" + " \\\n".join(lines), flush=True)


def show(text: str, most: int) -> None:
    """Print the first non-empty lines and the number of omitted ones; each line fits the terminal."""
    lines = [line for line in text.splitlines() if line.strip()]
    for line in lines[:most]:
        print(f"  {line}" if len(line) < WIDTH - 1 else f"  {line[: WIDTH - 5]} …")
    if most and len(lines) > most:
        print(f"  … {len(lines) - most} more lines", flush=True)


def show_sizes(text: str) -> None:
    """Print the important columns of the table of recommendations."""
    for line in text.partition("### Recommended limits")[2].splitlines():
        cells = [cell.strip(" `") for cell in line.split("|")]
        if len(cells) > 8 and cells[1].startswith(("who", "user=")):
            who, _, kind, _, advice, now, target = cells[1:8]
            print(f"    {who:22} {kind:8} {advice:8} {now:>10} {target:>14}")


def instant(at_ms: int) -> str:
    """Format a time for the command line."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def documents(before: dict[str, Any], after: dict[str, Any]) -> list[dict[str, Any]]:
    """Write the change as manifests: each limit that exists only in the second half."""
    return [
        {
            "apiVersion": "kafka-quotas.io/v1alpha1",
            "kind": "ClientQuota",
            "metadata": {"name": f"limit-{number}"},
            "spec": {
                "clusterRef": {"name": "recorded"},
                "entity": {SLOTS[kind]: {"name": name} for kind, name in entry["entity"]},
                "limits": {FIELDS[key]: value for key, value in entry["values"].items()},
            },
        }
        for number, entry in enumerate(after["entries"])
        if entry not in before["entries"]
    ]


def stated(groups: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """State how the recorded clients send and fetch, as their owners would from their configuration."""
    simulate: dict[str, Any] = {"consumers": [], "producers": []}
    for group in groups:
        names = {"user": group["user"], "clientId": group["clientId"]}
        clients = {
            "entities": [{slot: {"exact": name} for slot, name in names.items() if name}],
            "connections": group["connections"],
        }
        record = group["recordBytes"]
        if group["kind"] == "fetch":
            # One partition for each, and its producer sends each record alone.
            fetch = {"maxPartitionFetchBytes": group["fetchBytes"], "partitions": 1}
            simulate["consumers"].append(clients | fetch | {"batchBytes": record + 70})
        else:
            simulate["producers"].append(clients | {"recordBytes": record, "linger": "0s"})
    return simulate


def prepared(folder: Path, number: int) -> dict[str, Any]:
    """Write a project, its manifests and the recording into the folder; return the recorded run."""
    stem = f"run-{number}"
    about: dict[str, Any] = json.loads((RECORDINGS / f"{stem}.json").read_text(encoding="utf-8"))
    looks = [RECORDINGS / f"{stem}.{half}.quotas.json" for half in ("free", "limited")]
    before, after = (json.loads(one.read_text(encoding="utf-8")) for one in looks)
    recorded = json.loads(gzip.decompress((RECORDINGS / f"{stem}.matrix.json.gz").read_bytes()))
    lines: list[str] = []
    for series in recorded["data"]["result"]:
        name = series["metric"].pop("__name__")
        labels = ",".join(f"{label}={json.dumps(text)}" for label, text in series["metric"].items())
        lines += [
            f"{name}{{{labels}}} {value} {at - (APART * copy).total_seconds():.3f}"
            for copy in reversed(range(COPIES))
            for at, value in series["values"]
            if round(at * 1000) < about["spans"]["free"][1]
        ]
    (folder / "recorded.txt").write_text("\n".join([*lines, "# EOF\n"]), encoding="utf-8")
    (folder / "before.json").write_bytes(looks[0].read_bytes())
    first = datetime.fromisoformat(before["takenAt"]) - APART * (COPIES - 1)
    (folder / "first.json").write_text(
        json.dumps(before | {"takenAt": first.strftime("%Y-%m-%dT%H:%M:%SZ")}), encoding="utf-8"
    )
    (folder / "kquota.yaml").write_text(
        PROJECT.format(
            cluster_id=about["clusterId"],
            evidence=folder / "evidence",
            stated=json.dumps(stated(about["groups"])),
        ),
        encoding="utf-8",
    )
    (folder / "quotas").mkdir(exist_ok=True)
    text = "\n---\n".join(json.dumps(document, indent=2) for document in documents(before, after))
    (folder / "quotas" / "limits.yaml").write_text(text, encoding="utf-8")
    (folder / "lake").mkdir(exist_ok=True)
    return about


def compare(rows: Sequence[dict[str, Any]], number: int) -> None:
    """Print the forecast with the measured throttling of the broker."""
    sys.path.insert(0, str(ROOT))
    from tests.recording import fixture, truth  # noqa: PLC0415 - outside of the package, in its repository only

    print("\nWhat the broker then did to the same clients, under these limits")
    print(f"  {'':8} {'limit':>10}  {'throttled: plan, true':>22}  {'worst delay: plan, true':>24}")
    told = {(row["quota_type"], row["user"], row["client_id"]): row for row in rows}
    for case in fixture.read(number).cases:
        one, true = told[case.kind, case.user, case.client_id], truth.truth(case.free, case.limited)
        print(
            f"  {case.kind:8} {case.limit / 1000:>5.0f} kB/s"
            f"  {one['after_throttled_ms'] / 1000:>10.0f} s {true.throttled_ms / 1000:>8.0f} s"
            f"  {one['after_max_delay_ms'] / 1000:>12.0f} s {true.worst_ms / 1000:>8.0f} s"
        )


def walk(pipeline: Pipeline, number: int) -> None:
    """Run all steps."""
    began = time.monotonic()
    about = prepared(pipeline.folder, number)
    os.chdir(pipeline.folder)
    span = about["spans"]["free"]
    fortnight_ms = round((APART * (COPIES - 1)).total_seconds() * 1000)
    begin, first, end = (instant(at) for at in (span[0], span[0] - fortnight_ms, span[1]))
    print(
        "1. Ingest what a real broker recorded: five minutes, repeated every six hours for a fortnight"
    )
    output = pipeline.run(
        f"kquota usage ingest --cluster recorded --lake lake --from {first} --to {end} --file recorded.txt"
        " --snapshot first.json --snapshot before.json --previews"
    )
    show(output, 6)
    print("\n2. Plan seven new limits: what changes, and what recorded use says about each")
    # It exits with 3 if the project's policy refuses the result.
    plan = pipeline.run(
        "kquota plan --offline --snapshot before.json --evidence auto --no-inventory --page plan.html",
        codes=(0, 3),
    )
    show(plan, 3)
    show(plan.partition("Effect by recorded use")[2], 6)
    print("\n3. Simulate the new limits on the last five minutes")
    answer = pipeline.run(
        f"kquota usage simulate --lake lake --cluster recorded --from {begin} --to {end} --format json",
        codes=(0, 3),
    )
    compare(json.loads(answer)["simulation"]["rows"], number)
    print("\n4. Right-size: the limit that each client needs, and the text of its pull request")
    text = pipeline.run(
        f"kquota usage recommend --lake lake --cluster recorded --from {first} --to {end} --out proposals"
        " --format markdown"
    )
    show(text, 2)
    show_sizes(text)
    print("  In proposals/recorded.yaml:")
    show((pipeline.folder / "proposals" / "recorded.yaml").read_text(encoding="utf-8"), 9)
    print()
    for command, seconds in pipeline.took:
        print(f"{seconds:6.1f} s  {command}")
    print(f"{time.monotonic() - began:6.1f} s  in all")


NEXT = """
Next
  python examples/pipeline.py --keep FOLDER   keeps the project, the lake, plan.html and proposals/
  examples/github/recommendations.yml         opens it every week (GitLab: examples/gitlab)
  kquota usage report --lake lake …           one page for people
  docs/recorded-use.md                        the same for your clusters"""


def main() -> int:
    """Parse the arguments and run all steps."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--recording", type=int, choices=range(1, 9), default=6, metavar="1-8")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
        walk(Pipeline(folder=given.keep.resolve()), given.recording)
    else:
        with tempfile.TemporaryDirectory(prefix="kquota-pipeline-") as folder:
            walk(Pipeline(folder=Path(folder)), given.recording)
            os.chdir(ROOT)
    print(NEXT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
