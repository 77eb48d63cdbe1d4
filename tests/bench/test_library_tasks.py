"""The programs of the comparison of libraries run with the versions that its page names."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.sandbox import Sandbox
from tests.servers import jars
from tests.servers.jars import ServersUnavailable

TASKS = Path(__file__).parent / "library_tasks"
PAGE = TASKS / "README.md"
REQUIREMENTS = TASKS / "requirements.txt"
PROGRAMS = {
    "kafka_python.py": "10000 of 10000 applied",
    "kio_codec.py": "10000 of 10000 applied",
    "aiokafka_client.py": "AlterClientQuotas is not in the library",
    "confluent_kafka_client.py": "librdkafka has no request for quotas",
}


def _install(folder: Path) -> None:
    subprocess.run([sys.executable, "-I", "-m", "venv", str(folder)], check=True)
    words = ["install", "--quiet", "--disable-pip-version-check", "--requirement"]
    pip = [str(folder / "bin" / "python"), "-I", "-m", "pip", *words, str(REQUIREMENTS)]
    answer = subprocess.run(pip, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise ServersUnavailable(f"the libraries cannot be installed: {answer.stderr[-400:]}")


@pytest.mark.integration
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_the_comparison_prints_what_the_page_says(program: str) -> None:
    key = jars.digest(sys.version, REQUIREMENTS.read_text(encoding="utf-8"))
    python = jars.cached(f"libraries-{key}", _install) / "bin" / "python"

    async def run() -> str:
        async with Sandbox() as sandbox:
            process = await asyncio.create_subprocess_exec(
                python,
                TASKS / program,
                sandbox.bootstrap(),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            output, _ = await asyncio.wait_for(process.communicate(), 120)
            return output.decode()

    assert PROGRAMS[program] in asyncio.run(run())


def test_every_program_of_the_comparison_is_listed() -> None:
    assert {path.name for path in TASKS.glob("*.py")} == PROGRAMS.keys()


def test_the_page_names_the_installed_versions() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for requirement in REQUIREMENTS.read_text(encoding="utf-8").splitlines():
        assert requirement.replace("==", " ") in page
