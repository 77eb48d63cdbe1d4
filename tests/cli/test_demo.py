"""examples/demo.py prints what it should, on the sandbox and on a real broker."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.processes import HANG_SECONDS

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


def test_the_demo_fails_when_a_step_has_unexpected_output(tmp_path):
    broken = tmp_path / "examples"
    broken.mkdir()
    text = DEMO.read_text().replace('shows=["checkout", "10.20.0.7"]', 'shows=["something else"]')
    second_step = '    demo.say("Apply the plan: '
    assert second_step in text
    text = text.replace(second_step, f"    return\n{second_step}")
    (broken / "demo.py").write_text(text)
    for name in ("kquota.yaml", "quotas"):
        (broken / name).symlink_to(DEMO.parent / name)
    (tmp_path / "reconciler").symlink_to(DEMO.parents[1] / "reconciler")
    done = subprocess.run(
        [sys.executable, str(broken / "demo.py")],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert "did not show 'something else'" in done.stdout


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
        [sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "cryptography" in loaded
    assert loaded - {"cryptography", "click", "jsonschema", "msgspec", "yaml"} == set()
