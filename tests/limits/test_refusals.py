"""Files and HTTP answers above their limits, each refused with little memory; `truncate` gives a file any size."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.base.listeners import close_listeners
from tests.limits.process_limits import Prepared, assert_bounded

GIB = 2**30
PROGRAM = """
import asyncio, sys
from pathlib import Path
from reconciler.base import properties
from reconciler.base.clock import SystemClock
from reconciler.base.text_files import read_text
from reconciler.errors import KquotaError
from reconciler.evidence.ingest.readers.prometheus import PrometheusClient
from reconciler.forge.rest_client import RestClient
from reconciler.inventory.file import RecordsFile
from reconciler.manifest.files import read_paths
from reconciler.manifest.loader import load_files

def manifest_texts(place):
    problems = load_files(read_paths([place], Path.cwd())).problems
    sys.exit("\\n".join(map(str, problems[:1])) + f" ({len(problems)})")

def manifests(place):
    for problem in load_files(read_paths([place], Path.cwd())).problems:
        sys.exit(str(problem))

async def prometheus(place):
    async with PrometheusClient(place, clock=SystemClock()) as client:
        await client.names([], 0, 1)

async def code_host(place):
    async with RestClient(place, headers={}, clock=SystemClock(), token=None) as client:
        await client.get("repos")

READERS = {
    "records": lambda place: RecordsFile(Path(place)).read(),
    "plan": lambda place: read_text(Path(place)),
    "properties": lambda place: properties.read(Path(place)),
    "manifests": manifests,
    "manifest texts": manifest_texts,
    "prometheus": lambda place: asyncio.run(prometheus(place)),
    "code host": lambda place: asyncio.run(code_host(place)),
}
def main(kind, place):
    try:
        READERS[kind](place)
    except KquotaError as error:
        sys.exit(str(error))
"""


@pytest.fixture(scope="module")
def program() -> Iterator[Prepared]:
    with Prepared(PROGRAM) as prepared:
        yield prepared


@pytest.mark.parametrize("kind", ["records", "plan", "properties", "manifests"])
def test_a_file_that_is_too_large_is_refused_before_it_is_read(
    kind: str, program: Prepared, tmp_path: Path
) -> None:
    file = tmp_path / "file.yaml"
    file.touch()
    with file.open("r+b") as handle:
        handle.truncate(2 * GIB)
    run = program.run(kind, str(file))
    assert_bounded(run, words="larger than")
    assert run.cpu_seconds < 5


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        (
            "--- {}\n",
            "reading stopped after 1000 problems; there may be more. Correct these first (1001)",
        ),
        (
            "a: 1\n",
            "reading stopped after 1000 problems; there may be more. Correct these first (1001)",
        ),
        ("- {a: a}\n", "the document holds more than 800000 keys and values"),
    ],
)
def test_a_file_of_20_mib_with_nothing_but_problems_is_refused_in_a_pod(
    unit: str, words: str, program: Prepared, tmp_path: Path
) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(unit * (20 * 2**20 // len(unit)))
    assert_bounded(program.run("manifest texts", str(file)), words=words)


async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer a request with a JSON list that does not end."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[")
    try:
        while True:
            writer.write(b'"a",' * 65_536)
            await writer.drain()
    except ConnectionError:
        writer.close()


@pytest.mark.parametrize("kind", ["prometheus", "code host"])
def test_an_answer_without_an_end_is_refused_at_its_limit(kind: str, program: Prepared) -> None:
    async def run() -> None:
        server = await asyncio.start_server(endless, "127.0.0.1", 0)
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            ended = await asyncio.to_thread(program.run, kind, address)
        finally:
            await close_listeners([server])
        assert_bounded(ended, words="the answer is larger than")

    asyncio.run(run())
