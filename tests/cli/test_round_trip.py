"""export | apply on an empty cluster gives byte-identical snapshots of everything that a manifest can declare."""

import contextlib
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from reconciler.cli import main
from tests.cli.brokers import SandboxThread

FLAGS = ("--yes", "--allow-defaults", "--allow-small-values", "--no-inventory")


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
