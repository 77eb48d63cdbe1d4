"""What an operator imports in a pod: no more than it needs, and nothing is missing for those who come later."""

import subprocess
import sys

CODE = """
import sys
import reconciler.kube.run.operator
print("kopf" in sys.modules, "kubernetes" in sys.modules)
import kubernetes
print(kubernetes.__version__ != "")
"""


def test_the_official_client_is_not_imported_and_can_still_be() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == ["True False", "True"]
