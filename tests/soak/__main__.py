"""`python -m tests.soak`: seeds one after the other, on separate servers; exit code 1 if an invariant is violated."""

import argparse
import contextlib
import secrets
import sys
import tempfile
from pathlib import Path

from tests.kube.e2e.world import Place, World
from tests.servers.cluster_pool import SharedClusters
from tests.servers.kube.cluster import KubeCluster
from tests.soak.soak import Settings, Soak, write_log


def main() -> int:
    """Parse the arguments, run, report."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seed", type=int, action="append", help="default: a new one; repeatable")
    parser.add_argument("--minutes", type=float, default=10.0, help="time with faults (default 10)")
    parser.add_argument(
        "--documents", type=int, default=300, help="most live documents (default 300)"
    )
    parser.add_argument(
        "--fault-every", type=float, default=8.0, help="mean seconds between faults (default 8)"
    )
    parser.add_argument("--rate", type=float, default=6.0, help="operations a second (default 6)")
    parser.add_argument("--elect", action="store_true", help="let the operator take a Lease")
    parser.add_argument("--version", default="4.4.0", help="of Kafka (default 4.4.0)")
    arguments = parser.parse_args()
    failed = 0
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    with contextlib.closing(SharedClusters()) as clusters, KubeCluster() as kube:
        place = Place(kube, clusters.get(arguments.version))
        for seed in arguments.seed or [secrets.randbelow(1_000_000)]:
            settings = Settings(
                seed=seed,
                seconds=60 * arguments.minutes,
                documents=arguments.documents,
                every=arguments.fault_every,
                rate=arguments.rate,
                elect=arguments.elect,
            )
            place.clear()
            logs = folder / str(seed)
            logs.mkdir()
            with World(place, logs) as world:
                soak = Soak(world, settings)
                try:
                    print("OK", soak.run(), flush=True)
                except AssertionError as error:
                    failed += 1
                    print(
                        "FAILED",
                        soak.settings.again,
                        dict(soak.counts),
                        error,
                        sep="\n",
                        flush=True,
                    )
                finally:
                    print(f"operations: {write_log(folder, soak)}; operator: {logs}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
