"""The library: one import, without unused modules and third parties, with an API that changes only on purpose."""

import json
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from reconciler import kafka
from tests.servers.processes import HANG_SECONDS
from tools import library_api

ROOT = Path(__file__).parents[1]
MANUAL = (ROOT / "docs" / "client-library.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Modules after the import in a new interpreter that has no installed package but msgspec."""
    packages = tmp_path_factory.mktemp("packages")
    (packages / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    script = (
        f"import sys, json; sys.path.append({str(packages)!r});"
        " import reconciler.kafka; print(json.dumps(sorted(sys.modules)))"
    )
    answer = subprocess.run(
        [sys.executable, "-S", "-W", "error", "-c", script],
        cwd=ROOT,
        text=True,
        check=True,
        timeout=HANG_SECONDS,
        capture_output=True,
    )
    names: list[str] = json.loads(answer.stdout)
    return names


def test_the_library_needs_msgspec_and_nothing_else(loaded: list[str]) -> None:
    roots = {name.partition(".")[0] for name in loaded}
    assert roots - sys.stdlib_module_names - {"__main__"} == {"reconciler", "msgspec"}


def test_the_library_loads_the_client_and_the_quota_model_and_no_planner(loaded: list[str]) -> None:
    own = [name for name in loaded if name.startswith("reconciler.")]
    packages = {name.split(".")[1] for name in own}
    assert packages == {"base", "client", "errors", "kafka", "quota", "wire"}
    assert not [name for name in own if ".planner" in name or ".results" in name]
    for expensive in (
        "urllib.request",
        "http.client",
        "email",
        "logging.config",
        "sqlite3",
        "difflib",
        "html.entities",
        "tempfile",
        "bz2",
        "lzma",
    ):
        assert expensive not in loaded


def test_every_public_name_exists_and_every_class_and_function_is_documented() -> None:
    for name in kafka.__all__:
        member = getattr(kafka, name)
        assert not isinstance(member, type) or member.__doc__, name


def test_every_class_that_a_public_signature_names_can_be_imported_from_the_same_place() -> None:
    """Names in signatures: a caller can annotate arguments and results."""
    calls = [
        line
        for line in library_api.SNAPSHOT.read_text(encoding="utf-8").splitlines()
        if re.match(r"(async )?def (Sync)?QuotaClient\.", line)
    ]
    named = set(re.findall(r"\b[A-Z]\w+", " ".join(calls)))
    standard = {
        "Collection",
        "Iterable",
        "Mapping",
        "MutableMapping",
        "False",
        "None",
        "Sequence",
        "QuotaClient",
    }
    constants = {"SILENT", "VISIBLE_SECONDS"}
    assert named - standard - constants - {"SyncQuotaClient"} <= set(kafka.__all__)
