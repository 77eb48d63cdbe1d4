"""Files of metrics that cost far more than their size, with the memory and time of the operator's pod."""

import gzip
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.limits.process_limits import Prepared, assert_bounded

READ = """
import sys
from pathlib import Path
from reconciler.errors import KquotaError
from reconciler.evidence.ingest.drop_reasons import DropCounts
from reconciler.evidence.ingest.readers import openmetrics
def main(name):
    path = Path(name)
    try:
        points = sum(len(one.points) for one in openmetrics.read(path, DropCounts()))
    except KquotaError as error:
        sys.exit(f"{path}: {error}")
    print(points)
"""


@pytest.fixture(scope="module")
def reader() -> Iterator[Prepared]:
    with Prepared(READ) as prepared:
        yield prepared


def text(content: str) -> Callable[[], bytes]:
    return content.encode


GZIP_HEAD = bytes.fromhex("1f8b08000000000000ff")


def packed(block: bytes, blocks: int) -> Callable[[], bytes]:
    """Many equal blocks as gzip, with a few hundredths of a percent of their size."""

    def content() -> bytes:
        press = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
        pressed = press.compress(block) + press.flush(
            zlib.Z_FULL_FLUSH
        )  # the same for each of them
        checksum = 0
        for _ in range(blocks):
            checksum = zlib.crc32(block, checksum)
        end = struct.pack("<II", checksum, len(block) * blocks)
        return GZIP_HEAD + pressed * blocks + press.flush() + end

    return content


def lines(make: Callable[[int], str], count: int) -> Callable[[], bytes]:
    return lambda: gzip.compress("".join(make(n) for n in range(count)).encode(), 1)


EXEMPLAR = "# {"
ATTACKS: dict[str, tuple[str, Callable[[], bytes], str | None]] = {
    "one line of 200,000 letters": ("a.prom", text("a" * 200_000 + "\n"), "no sample"),
    "names and exemplars": (
        "a.prom",
        text(("a" * 60_000 + EXEMPLAR * 20_000 + "\n") * 3),
        "no sample",
    ),
    "labels without an end": ("a.prom", text('a{b="' + '\\"' * 100_000 + "\n"), "no sample"),
    "blanks between labels": ("a.prom", text("a{" + 'b="",  ' * 30_000 + "} 1 1\n"), "no sample"),
    "closing braces": ("a.prom", text("{" + "} " * 120_000 + "#\n"), "no sample"),
    "a line of 400 MB in 0.4 MB": ("a.prom.gz", packed(b"a" * 1_000_000, 400), "characters"),
    "as many series as lines": (
        "a.prom.gz",
        lines(lambda n: f'a{{b="{n}",c="{"x" * 4_000}"}} 1 {n}.0\n', 60_000),
        None,
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_file_needs_the_memory_of_one_part(name: str, reader: Prepared, tmp_path: Path) -> None:
    file, content, words = ATTACKS[name]
    (tmp_path / file).write_bytes(content())
    run = reader.run(str(tmp_path / file))
    assert_bounded(run, exit_code=0 if words is None else 1)
    assert words is None or any(word in run.stderr for word in words.split("|")), run.stderr
