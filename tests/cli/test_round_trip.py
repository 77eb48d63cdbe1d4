"""export | apply on an empty cluster gives byte-identical snapshots of everything that a manifest can declare."""

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from reconciler.cli import main
from tests.cli.brokers import SandboxThread

NAMES = (
    "<default>",
    "CN=a,O=b",
    "CN=a, O=b",
    "ünïcode 日本 😀",
    "a/b",
    "a:b",
    "a,b=c",
    " blanks ",
    "line\nbreak\r\n\tx",
    "null",
    "true",
    "yes",
    "1e7",
    "123",
    "2024-01-01",
    "~",
    "- a",
    "# a",
    "'\"\\",
    "{a: b}",
    "&a *b !c",
    "User:x",
    "*",
    "%2C",
    "\u2028\u2029\u0085\ufeff",
    "\x1b[31m",
    "a" * 300,
)
ODD = {
    **{(("user", name),): {"producer_byte_rate": 1024.0 + at} for at, name in enumerate(NAMES)},
    **{
        (("user", "u"), ("client-id", name)): {"consumer_byte_rate": 2048.0 + at}
        for at, name in enumerate(NAMES)
    },
    (("client-id", "<default>"),): {"request_percentage": 0.1 + 0.2},
    (("client-id", None),): {"request_percentage": 1e-7, "controller_mutation_rate": 1e22},
    (("user", None),): {"producer_byte_rate": 2.0**63},
    (("user", None), ("client-id", None)): {"controller_mutation_rate": 2.5},
    (("user", None), ("client-id", "<default>")): {"consumer_byte_rate": 1.0},
    (("user", "<default>"), ("client-id", None)): {"consumer_byte_rate": 9007199254740992.0},
    (("ip", "::1"),): {"connection_creation_rate": 1.0},
    (("ip", "10.0.0.7"),): {"connection_creation_rate": 2147483647.0},
    (("ip", None),): {"connection_creation_rate": 20.0},
}
FLAGS = ("--yes", "--allow-defaults", "--allow-small-values", "--no-inventory")


def piped(source: str, target: str) -> None:
    """`kquota export | kquota apply -`, as processes."""
    kquota = [sys.executable, "-m", "reconciler"]
    with subprocess.Popen(
        [*kquota, "export", "--bootstrap-server", source, "--cluster", "any"],
        stdout=subprocess.PIPE,
    ) as export:
        apply = subprocess.run(
            [*kquota, "apply", "-", "--bootstrap-server", target, *FLAGS],
            stdin=export.stdout,
            capture_output=True,
            text=True,
            check=False,
        )
    assert export.returncode == 0
    assert apply.returncode == 0, apply.stderr


def test_unusual_names_and_values_survive_an_export_and_an_apply(kquota, sandbox):
    sandbox.seed(ODD)
    before = kquota("snapshot", "--bootstrap-server", sandbox.bootstrap).out
    with SandboxThread() as empty:
        piped(sandbox.bootstrap, empty.bootstrap)
        assert empty.values() == sandbox.values()
        assert kquota("snapshot", "--bootstrap-server", empty.bootstrap).out == before
    assert before.count('"entity"') == len(ODD)


TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(st.dictionaries(TEXT, st.integers(1, 2**53), min_size=1, max_size=5))
def test_any_name_survives_an_export_and_an_apply(names):
    values = {(("user", name),): {"producer_byte_rate": float(v)} for name, v in names.items()}
    with SandboxThread() as full, SandboxThread() as empty:
        full.seed(values)
        by_a_file(full, empty)
        assert empty.values() == full.values()


def by_a_file(full: SandboxThread, empty: SandboxThread) -> None:
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        path = str(Path(name) / "all.yaml")
        where = ["--bootstrap-server", full.bootstrap, "--cluster", "any"]
        assert main.main(["export", *where, "--out", path]) == 0
        assert main.main(["apply", path, "--bootstrap-server", empty.bootstrap, *FLAGS]) == 0
