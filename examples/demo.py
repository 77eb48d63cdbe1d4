"""The main workflow: plan, apply, a plan without changes, drift, resolve. Run by ``make demo``.

    python examples/demo.py                   on the embedded sandbox, in seconds
    python examples/demo.py --broker kafka    on a real broker (Java 17 and Maven)

Every command is printed as it would be typed, with its real output. The exit code is 0 only if every step
printed what it should.
"""

import argparse
import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = {
    "kquota": [sys.executable, "-m", "reconciler"],
    "kafka-client-quotas": [
        sys.executable,
        "-c",
        "import sys; from reconciler.cli.client_quotas import main; sys.exit(main())",
    ],
}
BROKERS = {
    "sandbox": [*PROGRAMS["kquota"], "sandbox", "--format", "json"],
    "kafka": [sys.executable, "-m", "tests.servers.kafka", "4.3.1"],
}
STOP_SECONDS = 30


@dataclass
class Demo:
    """A copy of the example project, a broker, and the failed expectations."""

    folder: Path
    bootstrap: str
    misses: list[str] = field(default_factory=list)
    colour: bool = sys.stdout.isatty() and not os.environ.get("NO_COLOR")

    def say(self, words: str) -> None:
        """Print a sentence between two commands."""
        print(f"\n\x1b[1m{words}\x1b[0m" if self.colour else f"\n{words}", flush=True)

    def run(self, line: str, *, code: int = 0, shows: Sequence[str] = ()) -> str:
        """Run a command; record differences from its expected output."""
        print(f"\n$ {line}", flush=True)
        program, *arguments = shlex.split(line)
        done = subprocess.run(
            [*PROGRAMS[program], *arguments],
            cwd=self.folder,
            env=os.environ
            | {"KQUOTA_DEMO_BOOTSTRAP": self.bootstrap, "PYTHONPATH": str(HERE.parent)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            check=False,
        )
        print(done.stdout, end="", flush=True)
        if done.returncode != code:
            self.misses.append(f"`{line}` ended with {done.returncode}, not {code}")
        for words in shows:
            if words not in done.stdout:
                self.misses.append(f"`{line}` did not show {words!r}")
        return done.stdout


@contextlib.contextmanager
def broker(kind: str) -> Iterator[str]:
    """Run a broker in a separate process, and yield its bootstrap address."""
    process = subprocess.Popen(
        BROKERS[kind],
        cwd=HERE.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if kind == "sandbox" else None,
        text=True,
    )
    try:
        line = process.stdout.readline() if process.stdout is not None else ""
        if not line:
            sys.exit(f"the {kind} broker did not start (code {process.wait(STOP_SECONDS)})")
        yield str(json.loads(line)["bootstrap"])
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        if process.poll() is None:
            process.kill()


def story(demo: Demo) -> None:
    """Run all steps."""
    demo.say("What would change? Eleven documents, an empty cluster.")
    demo.run(
        "kquota plan --cluster demo --detailed-exitcode", code=2, shows=["checkout", "10.20.0.7"]
    )
    demo.say("Apply the plan: send, read back from every broker, record.")
    demo.run(
        "kquota apply --cluster demo --yes",
        shows=["20 of 20 changes applied and shown by the brokers"],
    )
    demo.say("A second plan has nothing to do.")
    demo.run("kquota plan --cluster demo --detailed-exitcode", shows=["Nothing to do"])
    demo.say("An operator raises a limit at night with Kafka's own tool, outside kquota.")
    demo.run(
        f"kafka-client-quotas --bootstrap-server {demo.bootstrap} --alter"
        " --names=user=checkout --add=producer_byte_rate=104857600"
    )
    demo.say("Drift is the value that was changed outside kquota; a changed document is none.")
    demo.run(
        "kquota drift --cluster demo --detailed-exitcode",
        code=2,
        shows=["user=checkout", "producer_byte_rate", "104857600"],
    )
    demo.say("What does checkout's replay client get, and why?")
    demo.run(
        "kquota resolve --cluster demo --user checkout --client-id replay",
        shows=["user=checkout,client-id=replay", "5242880", "user=checkout,client-id=<default>"],
    )
    demo.say("Write the declared limit again.")
    demo.run(
        "kquota apply --cluster demo --yes --correct-drift",
        shows=["1 of 1 change applied and shown by the brokers"],
    )
    demo.run("kquota drift --cluster demo --detailed-exitcode", shows=["No drift"])


def main() -> int:
    """Run the demo; print the failed expectations."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--broker", choices=sorted(BROKERS), default="sandbox")
    chosen = parser.parse_args().broker
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kquota-demo-") as name, broker(chosen) as bootstrap:
        folder = Path(name)
        shutil.copy(HERE / "kquota.yaml", folder)
        shutil.copytree(HERE / "quotas", folder / "quotas")
        demo = Demo(folder=folder, bootstrap=bootstrap)
        demo.say(f"A broker ({chosen}) listens at {bootstrap}. The project is a copy of examples/.")
        story(demo)
    if demo.misses:
        demo.say("Not everything was as it should be:")
        print("\n".join(f"  - {miss}" for miss in demo.misses))
        return 1
    demo.say(
        f"Seen in {time.monotonic() - began:.1f} s: eleven documents planned and applied, an empty second plan, "
        "a change outside kquota detected, reported and corrected, and one client's limit explained."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
