"""The whole pipeline on a recording of a real broker: ingest, simulate a change of manifests on Spark, a page. Run by ``make pipeline``.

    python examples/pipeline.py                    everything, in a scratch folder
    python examples/pipeline.py --keep FOLDER      the same, and leave lake, evidence and report.html there
    python examples/pipeline.py --recording 2      another of the eight recordings

Every command is printed as it would be typed. Needs the extras ``usage`` and ``spark``, and Java 17; no broker. At the end
the forecast stands beside what the broker then did to the same clients under the same limits.
"""

import argparse
import gzip
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RECORDINGS = ROOT / "tests" / "recording" / "fixture"
FIELDS = {"producer_byte_rate": "producerByteRate", "consumer_byte_rate": "consumerByteRate"}
SLOTS = {"user": "user", "client-id": "clientId"}
PROJECT = """\
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaProject
spec:
  manifests: [quotas]
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
    """A folder with a project, a lake to be, and how long each command took."""

    folder: Path
    took: list[tuple[str, float]] = field(default_factory=list)

    def run(self, line: str, *, codes: Sequence[int] = (0,), shown: bool = True) -> str:
        """Type a command, show what it prints unless it is for a program, and note the time."""
        print(f"\n$ {line}", flush=True)
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "reconciler", *shlex.split(line)[1:]],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        self.took.append((line.split(" --", maxsplit=1)[0], time.monotonic() - began))
        if shown:
            print(done.stdout, end="", flush=True)
        if done.returncode not in codes:
            print(done.stderr, file=sys.stderr)
            raise SystemExit(f"exit code {done.returncode}")
        return done.stdout


def instant(at_ms: int) -> str:
    """A moment as the command line takes it."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def documents(before: dict[str, Any], after: dict[str, Any]) -> list[dict[str, Any]]:
    """The change as manifests: each limit that is there only afterwards."""
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


def prepared(folder: Path, number: int) -> dict[str, Any]:
    """Puts a project, its manifests and the recording into the folder; answers with what is known of the recording."""
    stem = f"run-{number}"
    about: dict[str, Any] = json.loads((RECORDINGS / f"{stem}.json").read_text(encoding="utf-8"))
    looks = [RECORDINGS / f"{stem}.{half}.quotas.json" for half in ("free", "limited")]
    before, after = (json.loads(one.read_text(encoding="utf-8")) for one in looks)
    (folder / "recorded.json").write_bytes(
        gzip.decompress((RECORDINGS / f"{stem}.matrix.json.gz").read_bytes())
    )
    (folder / "before.json").write_bytes(looks[0].read_bytes())
    (folder / "kquota.yaml").write_text(
        PROJECT.format(cluster_id=about["clusterId"], evidence=folder / "evidence"),
        encoding="utf-8",
    )
    (folder / "quotas").mkdir(exist_ok=True)
    text = "\n---\n".join(json.dumps(document, indent=2) for document in documents(before, after))
    (folder / "quotas" / "limits.yaml").write_text(text, encoding="utf-8")
    (folder / "lake").mkdir(exist_ok=True)
    return about


def compare(rows: Sequence[dict[str, Any]], number: int) -> None:
    """The forecast beside what the broker then did."""
    sys.path.insert(0, str(ROOT))
    from tests.recording import fixture, truth  # noqa: PLC0415 - beside the package, in its repository only

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
    """All steps."""
    about = prepared(pipeline.folder, number)
    begin, end = (instant(at) for at in about["spans"]["free"])
    window = f"--from {begin} --to {end}"
    pipeline.run(
        f"kquota spark ingest --cluster recorded --lake lake {window} --file recorded.json --snapshot before.json --publish"
    )
    # The preview of a pull request: no JVM. It exits 3 where the project's policy refuses what it sees.
    pipeline.run(
        "kquota plan --offline --snapshot before.json --evidence auto --no-inventory", codes=(0, 3)
    )
    answer = pipeline.run(
        f"kquota spark simulate --lake lake --cluster recorded {window} --engine spark --brief --format json",
        codes=(0, 3),
        shown=False,
    )
    pipeline.run(
        f"kquota spark report --lake lake --cluster recorded {window} --brief --out report.html"
    )
    compare(json.loads(answer)["simulation"]["rows"], number)
    page = pipeline.folder / "report.html"
    print(f"\nreport.html: {page.stat().st_size:,} bytes, no network and no script needed")
    for line, seconds in pipeline.took:
        print(f"{seconds:6.1f} s  {line}")
    print(f"{sum(seconds for _, seconds in pipeline.took):6.1f} s  in all, JVM starts included")


def main() -> int:
    """Read the arguments, walk."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--recording", type=int, choices=range(1, 9), default=6, metavar="1-8")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
        walk(Pipeline(folder=given.keep.resolve()), given.recording)
        return 0
    with tempfile.TemporaryDirectory(prefix="kquota-pipeline-") as folder:
        walk(Pipeline(folder=Path(folder)), given.recording)
    return 0


if __name__ == "__main__":
    sys.exit(main())
