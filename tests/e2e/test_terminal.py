"""The output of the command line in a real terminal of several widths, with a real broker."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.projects import project, quota
from tests.servers import raw_quotas
from tests.servers.processes import HANG_SECONDS
from tests.servers.terminal import screenshot

pytestmark = pytest.mark.integration

WIDTHS = (80, 200)
KQUOTA = (sys.executable, "-m", "reconciler")
TREE = str(Path(__file__).parents[2])
DOCUMENTS = (
    quota("a", "{producerByteRate: 10Mi, consumerByteRate: 20Mi, requestPercentage: 150}"),
    quota(
        "b",
        entity='{user: {name: "CN=billing-export,OU=payments,O=Example Corporation,C=DE"}, clientId: {name: nightly}}',
    ),
    quota("c", entity="{user: {default: true}}"),
)
COMMANDS = (
    ("plan", "--allow-defaults"),
    ("resolve", "--user", "a", "--client-id", "nightly"),
    ("describe",),
    ("drift", "--read-only"),
    ("doctor",),
)


def piped(folder: Path, *words: str) -> str:
    """Standard output of a command that is not a terminal."""
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    return subprocess.run(
        [*KQUOTA, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
        stdin=subprocess.DEVNULL,
        env=environment | {"PYTHONPATH": TREE},
    ).stdout


def letters(text: str) -> str:
    return "".join(text.split())


def contents(text: str) -> set[str]:
    """Return the words of a table without its heads, names of levels and empty cells."""
    return {word for word in text.split() if word not in {"-", "user"} and not word.isupper()}


@pytest.fixture(scope="module")
def folder(kafka, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose cluster has drifted once."""
    cluster = kafka("4.3.1")
    raw_quotas.clear(cluster.port())
    place = tmp_path_factory.mktemp("project")
    project(place, cluster.bootstrap(), *DOCUMENTS)
    assert "applied and shown by the brokers" in piped(place, "apply", "--yes", "--allow-defaults")
    raw_quotas.set_quotas(
        cluster.port(), {raw_quotas.entity(user="a"): {"producer_byte_rate": 7.0}}
    )
    return place


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_no_line_is_wider_than_the_terminal_or_truncated(folder, command, columns):
    displayed_screenshot = screenshot(
        *KQUOTA, *command, columns=columns, folder=folder, environment={"PYTHONPATH": TREE}
    )
    assert displayed_screenshot.rows == displayed_screenshot.lines, (
        "the terminal had to wrap a line"
    )
    assert "…" not in displayed_screenshot.text
    assert not any(
        line.startswith(("error:", "Traceback")) for line in displayed_screenshot.lines
    ), displayed_screenshot.text
    if command[0] == "plan":
        assert letters(piped(folder, *command)) in letters(displayed_screenshot.text)
    if command[0] in {"describe", "resolve"}:  # A narrow terminal shows entities without a head.
        assert contents(piped(folder, *command)) <= contents(displayed_screenshot.text)


def test_a_pipe_gets_one_line_per_row_and_no_colour(folder):
    text = piped(folder, "resolve", "--user", "a", "--client-id", "nightly")
    (row,) = (line for line in text.splitlines() if "producer_byte_rate" in line)
    assert "user=<default> 10485760 (10 MiB/s)" in row
    assert "\x1b" not in text


@pytest.mark.parametrize("columns", [80, 200])
def test_the_help_fits_the_terminal(folder, columns):
    displayed_screenshot = screenshot(
        *KQUOTA, "plan", "-h", columns=columns, folder=folder, environment={"PYTHONPATH": TREE}
    )
    assert displayed_screenshot.rows == displayed_screenshot.lines
    assert "Guards:" in displayed_screenshot.rows
