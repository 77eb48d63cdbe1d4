"""`python -m tests.servers.kube`: runs a Kubernetes with the CRDs in the foreground, for the demo and manual tests.

Prints one JSON line with URL and kubeconfig; stops on SIGTERM, Ctrl-C or when stdin closes.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from tests.servers.foreground import asked_to_stop, wait_for_the_end
from tests.servers.jars import ServersUnavailable
from tests.servers.kube import programs
from tests.servers.kube.cluster import KubeCluster
from tests.servers.node import ServerFailed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cluster; return 0 after a normal stop, 1 with a message on stderr after a failed start."""
    argparse.ArgumentParser(prog="python -m tests.servers.kube", description=__doc__).parse_args(
        arguments
    )
    try:
        with asked_to_stop() as waiting, KubeCluster() as cluster, cluster.pods_become_ready():
            cluster.install_crds()
            description = {
                "version": programs.KUBERNETES,
                "url": cluster.api_url,
                "kubeconfig": str(cluster.kubeconfig),
                "kubectl": str(programs.kubectl()),
                "helm": str(programs.helm()),
            }
            sys.stdout.write(json.dumps(description) + "\n")
            sys.stdout.flush()
            wait_for_the_end(waiting)
    except (ServersUnavailable, ServerFailed) as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    return 0


raise SystemExit(main())
