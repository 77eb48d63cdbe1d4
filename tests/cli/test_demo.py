"""examples/demo.py prints what it should, on the sandbox and on a real broker."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.processes import HANG_SECONDS, without_coverage

DEMO = Path(__file__).parents[2] / "examples/demo.py"


@pytest.mark.parametrize(
    "broker", ["sandbox", pytest.param("kafka", marks=pytest.mark.integration)]
)
def test_the_demo_runs_every_command_with_its_expected_output(broker):
    done = subprocess.run(
        [sys.executable, str(DEMO), "--broker", broker],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    for line in ("$ kquota plan", "$ kquota apply", "$ kquota drift", "$ kquota resolve"):
        assert line in done.stdout
    assert done.stdout.splitlines()[-1].startswith("Seen in ")


ROOT = DEMO.parents[1]
LOADED = """
import sys
import tests.servers.foreground, tests.servers.kafka
files = {name.partition(".")[0] for name, module in sys.modules.items() if "site-packages" in (getattr(module, "__file__", None) or "")}
print(*sorted(name for name in files - {"typing_extensions"} if not name.startswith("_")))
"""


def test_the_demo_on_a_real_broker_installs_neither_spark_nor_the_test_tools():
    done = subprocess.run(
        ["make", "--dry-run", "--always-make", "demo", "BROKER=kafka"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ".ci/locks/dev.txt" not in done.stdout
    assert ".ci/locks/keystores.txt" in done.stdout
    assert "--broker kafka" in done.stdout


def test_the_broker_of_the_demo_needs_cryptography_and_the_base_installation():
    done = subprocess.run(
        [sys.executable, "-c", LOADED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env=without_coverage(),
    )
    loaded = set(done.stdout.split())
    assert "cryptography" in loaded
    assert loaded - {"cryptography", "click", "jsonschema", "msgspec", "yaml"} == set()
