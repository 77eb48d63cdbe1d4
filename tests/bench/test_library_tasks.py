"""The programs of the comparison in docs/client-library.md run if their library is installed."""

import asyncio
import importlib.util
import sys
from pathlib import Path

from reconciler.sandbox import Sandbox

TASKS = Path(__file__).parent / "library_tasks"
LIBRARIES = {
    "kafka": ("kafka_python.py", "10000 of 10000 applied"),
    "kio": ("kio_codec.py", "10000 of 10000 applied"),
    "aiokafka": ("aiokafka_client.py", "AlterClientQuotas is not in the library"),
    "confluent_kafka": ("confluent_kafka_client.py", "librdkafka has no request for quotas"),
}


def test_the_programs_of_the_comparison_print_the_output_on_the_page() -> None:
    for library in LIBRARIES:
        if importlib.util.find_spec(library) is not None:
            assert LIBRARIES[library][1] in output_of(library)


def output_of(library: str) -> str:
    async def run() -> str:
        async with Sandbox() as sandbox:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                TASKS / LIBRARIES[library][0],
                sandbox.bootstrap(),
                stdout=asyncio.subprocess.PIPE,
            )
            output, _ = await asyncio.wait_for(process.communicate(), 60)
            return output.decode()

    return asyncio.run(run())


def test_every_program_of_the_comparison_is_listed() -> None:
    assert {path.name for path in TASKS.glob("*.py")} == {name for name, _ in LIBRARIES.values()}
