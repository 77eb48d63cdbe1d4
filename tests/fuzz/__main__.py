"""``python -m tests.fuzz``: fuzzes every reader for a share of the time; exit code 0 if none of them crashes."""

import argparse
import secrets
import sys

from tests.fuzz.fuzzer import fuzz
from tests.fuzz.readers import readers


def main() -> int:
    """Fuzz all readers; print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="for all readers together")
    parser.add_argument("--seed", type=int, default=None, help="default: a fresh one")
    parser.add_argument("--reader", default="", help="only readers whose name holds this")
    arguments = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if arguments.seed is None else arguments.seed
    selected_readers = [reader for reader in readers() if arguments.reader in reader.name]
    crashes = 0
    for reader in selected_readers:
        result = fuzz(reader, seconds=arguments.seconds / len(selected_readers), seed=seed)
        line = f"{result.reader:36} {result.inputs:8,} inputs {result.steps:6,} steps"
        if result.crash is not None:
            crashes += 1
            line += f"  CRASH {result.error}\n  input: {result.crash!r}\n  again: python -m tests.fuzz --seed {seed} --reader '{result.reader}'"
        _ = sys.stdout.write(line + "\n")
        sys.stdout.flush()
    return 1 if crashes else 0


if __name__ == "__main__":
    sys.exit(main())
