"""The audit log is only appended to, private, has one line per entry, and is repaired after a crash."""

import json
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.base.durable_files import BLOCK_BYTES, DurableFiles
from reconciler.codecs.audit_log import apply_entry, pair_name
from reconciler.errors import InventoryError
from reconciler.inventory.audit_log import FileAuditLog, read_entries
from reconciler.quota.entity import entity
from reconciler.quota.entity_forms import entity_json
from reconciler.quota.keys import Key

CLUSTER = "lkc-1"
PAIRS = [
    (entity(user=user), key)
    for user in ("alice", "bob")
    for key in (Key.PRODUCER_BYTE_RATE, Key.CONSUMER_BYTE_RATE)
]


def test_entries_are_lines_that_are_only_appended(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    log = FileAuditLog(path)
    log.append([{"entity": [["user", None]], "after": 1.5}, {"who": "a\nb\u202e"}])
    first = path.read_bytes()
    log.append([{"who": "c"}])
    assert path.read_bytes().startswith(first)
    assert first.isascii()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"v": 1, "entity": [["user", None]], "after": 1.5},
        {"v": 1, "who": "a\nb\u202e"},
        {"v": 1, "who": "c"},
    ]


def test_the_file_is_private(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    FileAuditLog(path).append([{"who": "a"}])
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_empty_list_of_entries_creates_no_file(tmp_path: Path):
    FileAuditLog(tmp_path / "audit.jsonl").append([])
    assert not (tmp_path / "audit.jsonl").exists()


def test_a_line_truncated_by_a_crash_does_not_damage_others(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    log = FileAuditLog(path)
    log.append([{"n": 1}])
    path.write_bytes(path.read_bytes() + b'{"v":1,"n":')
    log.append([{"n": 2}])
    assert [entry["n"] for entry in read_entries(path)] == [1, 2]


def test_a_malformed_line_is_an_error_with_its_place(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    path.write_text('{"v":1}\n{"v":2}\n')
    with pytest.raises(InventoryError, match=r"audit\.jsonl:2: not an audit entry of version 1"):
        list(read_entries(path))


def test_a_log_that_cannot_be_written_is_an_error(tmp_path: Path):
    with pytest.raises(InventoryError, match="cannot be written"):
        FileAuditLog(tmp_path / "no" / "audit").append([{"n": 1}])
    with pytest.raises(InventoryError, match="cannot be read"):
        list(read_entries(tmp_path / "gone"))


def test_numbers_that_json_cannot_represent_are_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="JSON"):
        FileAuditLog(tmp_path / "audit").append([{"after": float("nan")}])
    assert not (tmp_path / "audit").exists()


class BlockFiles(DurableFiles):
    """A log in memory that is read in blocks of a given size, and counts the bytes that were read."""

    def __init__(self, content: bytes, size: int) -> None:
        self.content, self.size, self.bytes_read = content, size, 0

    def blocks_from_end(self, path: Path) -> Generator[bytes]:
        for end in range(len(self.content), 0, -self.size):
            block = self.content[max(0, end - self.size) : end]
            self.bytes_read += len(block)
            yield block


def line(pair_at: int, outcome: str, **fields: object) -> dict[str, object]:
    subject, key = PAIRS[pair_at]
    pair = {"entity": entity_json(subject), "key": str(key)}
    return {"v": 1, "clusterId": CLUSTER, **pair, "outcome": outcome, **fields}


ENTRIES = st.builds(
    line,
    st.integers(0, len(PAIRS) - 1),
    st.sampled_from(["INTENDED", "INTENDED", "APPLIED", "UNKNOWN", "NOT LANDED"]),
) | st.builds(
    line,
    st.integers(0, len(PAIRS) - 1),
    st.sampled_from(["APPLIED", "UNKNOWN", "NOT LANDED", "REJECTED"]),
    intendedAt=st.just("2026-01-01T00:00:00Z"),
    seen=st.sampled_from(["visible", "unchecked"]),
)
LINES = (
    ENTRIES.map(json.dumps)
    | ENTRIES.map(lambda entry: json.dumps({**entry, "clusterId": "other"}))
    | ENTRIES.map(lambda entry: json.dumps({**entry, "v": 2}))
    | ENTRIES.map(lambda entry: json.dumps(entry)[:40])
    | st.just("")
)


@given(st.lists(LINES), st.integers(1, 700), st.sets(st.sampled_from(PAIRS)), st.booleans())
def test_open_intents_are_those_of_a_log_that_is_read_from_its_beginning(
    texts, size, pairs, is_cut_off
):
    open_intents: dict[str, Mapping[str, object]] = {}
    for text in texts:
        try:
            entry = json.loads(text)
        except ValueError:
            continue
        if (entry["clusterId"], entry["v"]) == (CLUSTER, 1):
            apply_entry(open_intents, entry)
    content = "\n".join(texts) + ("" if is_cut_off else "\n")
    log = FileAuditLog(Path("log"), files=BlockFiles(content.encode(), size))
    names = {pair: pair_name(entity_json(pair[0]), str(pair[1])) for pair in pairs}
    assert log.open_intents(CLUSTER, pairs) == {
        pair: open_intents[name] for pair, name in names.items() if name in open_intents
    }


def test_of_a_long_log_only_the_end_is_read():
    lines = [line(0, "INTENDED"), *(line(1, "INTENDED", number=number) for number in range(999))]
    content = "\n".join(map(json.dumps, lines)).encode()
    files = BlockFiles(content, 500)
    log = FileAuditLog(Path("log"), files=files)
    assert log.open_intents(CLUSTER, {PAIRS[1]})[PAIRS[1]]["number"] == 998
    assert files.bytes_read == 500
    assert log.open_intents(CLUSTER, ()) == {}
    assert len(log.open_intents(CLUSTER, PAIRS)) == 2


def test_open_intents_of_a_file_that_is_longer_than_a_block_or_missing(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    log = FileAuditLog(path)
    assert log.open_intents(CLUSTER, PAIRS) == {}
    log.append([line(0, "INTENDED", words="w" * BLOCK_BYTES), line(1, "INTENDED")])
    assert log.open_intents(CLUSTER, PAIRS).keys() == set(PAIRS[:2])
    with pytest.raises(InventoryError, match="cannot be read"):
        FileAuditLog(tmp_path).open_intents(CLUSTER, PAIRS)
