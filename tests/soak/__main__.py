"""`python -m tests.soak`: one soak on servers of its own; exit code 1 if something is not as declared."""

import argparse
import contextlib
import secrets
import sys
import tempfile
from pathlib import Path

from tests.kube.e2e.world import Place, World
from tests.servers.cluster_pool import SharedClusters
from tests.servers.kube.cluster import KubeCluster
from tests.soak.soak import Settings, Soak


def main() -> int:
    """Parse the arguments, run, report."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--minutes", type=float, default=10.0, help="time with faults (default 10)")
    parser.add_argument("--documents", type=int, default=300, help="most live documents")
    arguments = parser.parse_args()
    settings = Settings(
        seed=arguments.seed, seconds=60 * arguments.minutes, documents=arguments.documents
    )
    logs = Path(tempfile.mkdtemp(prefix="soak-"))
    with contextlib.closing(SharedClusters()) as clusters, KubeCluster() as kube:
        place = Place(kube, clusters.get("4.4.0"))
        place.clear()
        with World(place, logs) as world:
            try:
                print("OK", Soak(world, settings).run(), f"operator: {logs}")
            except AssertionError as error:
                print("FAILED", error, f"operator: {logs}", sep="\n")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
