"""One sample in its own process: ``python -m tests.bench.sample KIND CANDIDATE [FILE]`` prints its figures as JSON."""

import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench import codec, documents, plan

REPEATS = 3


def memory(field: str) -> int:
    """Resident memory of this process in KiB, now (``VmRSS``) or at most so far (``VmHWM``).

    Not ``ru_maxrss``: a process inherits that from its parent.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(
        int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{field}:")
    )


def cpu_and_peak(work: Callable[[], Any]) -> dict[str, float]:
    """Minimum of CPU seconds of three runs, and the growth of resident memory in the first one, in MB.

    The garbage collector has its default settings, as for users.
    """
    gc.collect()
    before = memory("VmRSS")
    took = []
    peak = 0.0
    for number in range(REPEATS):
        start = time.process_time()
        result = work()
        took.append(time.process_time() - start)
        if number == 0:
            peak = (memory("VmHWM") - before) / 1024
        del result
        gc.collect()
    return {"cpu": min(took), "peak_mb": peak}


def main(words: list[str]) -> dict[str, float]:
    match words:
        case ["decode", name, path]:
            body, decode = Path(path).read_bytes(), codec.DECODERS[name]
            return cpu_and_peak(lambda: decode(body))
        case ["encode", name]:
            alterations, encode = codec.alterations(), codec.ENCODERS[name]
            encode(alterations[:10])
            return cpu_and_peak(lambda: encode(alterations))
        case ["plan", name]:
            return cpu_and_peak(plan.CANDIDATES[name]())
        case ["load", name, path]:
            return cpu_and_peak(documents.CANDIDATES[name](Path(path)))
        case _:
            raise SystemExit(f"no such sample: {words}")


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
