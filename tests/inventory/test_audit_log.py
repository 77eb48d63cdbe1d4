"""The audit log is only appended to, private, has one line per entry, and is repaired after a crash."""

from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.base.durable_files import BLOCK_BYTES, DurableFiles
from reconciler.errors import InventoryError
from reconciler.inventory.audit_log import FileAuditLog
from reconciler.quota.entity import entity, parts
from reconciler.quota.keys import Key
from reconciler.quota.results.audit_entry import AuditEntry
from reconciler.render.json_values import read_value, written_value
from tests.fakes.audit_entry import audit_entry, entries_in

CLUSTER = "lkc-1"
PAIRS = [
    (entity(user=user), key)
    for user in ("alice", "bob")
    for key in (Key.PRODUCER_BYTE_RATE, Key.CONSUMER_BYTE_RATE)
]


def test_a_line_has_the_published_fields_in_their_order(tmp_path: Path):
    """The examples of docs/ and other tools read them; fields that do not apply are absent."""
    path = tmp_path / "audit.jsonl"
    entries = (
        audit_entry(
            entity=parts(entity(user=None, client_id="\u202e")), before=written_value(2.0**63)
        ),
        audit_entry(before=msgspec.UNSET, settled_at="S", settled_by="me", intended_at="T"),
    )
    FileAuditLog(path).append(entries)
    run = '{"v":1,"time":"2025-11-21T12:00:00Z","who":"ci","commit":"abc","clusterId":"lkc-1","digest":"sha256:0",'
    key = '"key":"producer_byte_rate",'
    result = (
        '"after":5,"cause":"Create","document":"team/alice",'
        '"outcome":"APPLIED","seen":"visible","found":5,"words":""'
    )
    before = '"before":9.223372036854776e+18,'
    settled = '"settledAt":"S","settledBy":"me","intendedAt":"T"'
    assert path.read_text().splitlines() == [
        f'{run}"entity":[["user",null],["client-id","\\u202e"]],{key}{before}{result}}}',
        f'{run}"entity":[["user","alice"]],{key}{result},{settled}}}',
    ]


TEXTS = st.text() | st.sampled_from(["\ud800", "##[x]", "\x7f", "\u2028"])
VALUES = st.none() | st.floats()


@given(st.lists(st.tuples(TEXTS, TEXTS, VALUES, VALUES), min_size=1))
def test_every_entry_reads_back_as_it_was_written(tmp_path_factory, rows):
    entries = [
        audit_entry(
            author=who,
            entity=(("user", name),),
            before=written_value(before),
            after=written_value(after),
        )
        for who, name, before, after in rows
    ]
    path = tmp_path_factory.mktemp("log") / "audit.jsonl"
    FileAuditLog(path).append(entries)
    assert list(entries_in(path)) == entries
    assert [repr(read_value(entry.before)) for entry in entries_in(path)] == [
        repr(before) for _, _, before, _ in rows
    ]


def test_the_file_is_private(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    FileAuditLog(path).append([audit_entry()])
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_empty_list_of_entries_creates_no_file(tmp_path: Path):
    FileAuditLog(tmp_path / "audit.jsonl").append([])
    assert not (tmp_path / "audit.jsonl").exists()


def test_a_line_truncated_by_a_crash_does_not_damage_others(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    log = FileAuditLog(path)
    log.append([audit_entry(author="one")])
    path.write_bytes(path.read_bytes() + b'{"v":2,"n":')
    log.append([audit_entry(author="two")])
    assert [entry.author for entry in entries_in(path)] == ["one", "two"]


LINE = msgspec.json.encode(audit_entry())


@pytest.mark.parametrize(
    "line",
    [
        b"[]",
        b'{"v":2}',
        LINE.replace(b'"v":1,', b""),
        LINE.replace(b'"v":1', b'"v":true'),
        LINE.replace(b'"outcome":"APPLIED",', b""),
        LINE.replace(b'"after":5', b'"after":true'),
        LINE.replace(b'"after":5', b'"after":"many"'),
        LINE.replace(b'"after":5', b'"after":1' + b"0" * 400),
        LINE.replace(b'[["user","alice"]]', b'"alice"'),
        LINE.replace(b'"after":5', b'"after":"\\ud800"'),
        b'{"\\ud800":1,' + LINE[1:],
        LINE[:-1] + b',"x":' + b"[" * 9_000 + b"]" * 9_000 + b"}",
    ],
)
def test_a_line_that_is_no_entry_holds_no_intent_and_hides_none(tmp_path: Path, line: bytes):
    path = tmp_path / "audit.jsonl"
    intent = entry_of(0, "INTENDED")
    path.write_bytes(msgspec.json.encode(intent) + b"\n" + line + b"\n")
    assert FileAuditLog(path).open_intents(CLUSTER, PAIRS) == {PAIRS[0]: intent}


@pytest.mark.parametrize(
    ("written", "after"),
    [
        (LINE.replace(b'"after":5', b'"after":9223372036854776000'), 2.0**63),
        (b'{"ticket":[1],' + LINE[1:], 5),
    ],
)
def test_an_intent_is_read_as_other_tools_write_it(tmp_path: Path, written: bytes, after: float):
    path = tmp_path / "audit.jsonl"
    path.write_bytes(written.replace(b"APPLIED", b"INTENDED") + b"\n")
    (entry,) = FileAuditLog(path).open_intents(CLUSTER, PAIRS).values()
    assert entry.after == after


def test_a_log_that_cannot_be_written_is_an_error(tmp_path: Path):
    with pytest.raises(InventoryError, match="cannot be written"):
        FileAuditLog(tmp_path / "no" / "audit").append([audit_entry()])


class BlockFiles(DurableFiles):
    """A log in memory that is read in blocks of a given size, and counts the bytes that were read."""

    def __init__(self, content: bytes, size: int) -> None:
        self.content, self.size, self.bytes_read = content, size, 0

    def blocks_from_end(self, path: Path) -> Generator[bytes]:
        for end in range(len(self.content), 0, -self.size):
            block = self.content[max(0, end - self.size) : end]
            self.bytes_read += len(block)
            yield block


def entry_of(pair_at: int, outcome: str, **fields: object) -> AuditEntry:
    subject, key = PAIRS[pair_at]
    return audit_entry(entity=parts(subject), key=key.value, outcome=outcome, **fields)


ENTRIES = st.builds(
    entry_of,
    st.integers(0, len(PAIRS) - 1),
    st.sampled_from(["INTENDED", "INTENDED", "APPLIED", "UNKNOWN", "NOT LANDED"]),
    cluster_id=st.sampled_from([CLUSTER, CLUSTER, "other"]),
) | st.builds(
    entry_of,
    st.integers(0, len(PAIRS) - 1),
    st.sampled_from(["APPLIED", "UNKNOWN", "NOT LANDED", "REJECTED"]),
    intended_at=st.just("2026-01-01T00:00:00Z"),
    visibility=st.sampled_from(["visible", "unchecked"]),
)
ENTRY_LINES = ENTRIES.map(msgspec.json.encode)
LINES = (
    ENTRY_LINES
    | ENTRY_LINES.map(lambda line: line.replace(b'"v":1', b'"v":2'))
    | ENTRY_LINES.map(lambda line: line[:40])
    | st.just(b"")
)


@given(st.lists(LINES), st.integers(1, 700), st.sets(st.sampled_from(PAIRS)), st.booleans())
def test_open_intents_are_those_of_a_log_that_is_read_from_its_beginning(
    lines, size, pairs, is_cut_off
):
    open_intents: dict[object, AuditEntry] = {}
    for line in lines:
        if line.startswith(b'{"v":1') and line.endswith(b"}"):
            entry = msgspec.json.decode(line, type=AuditEntry)
            if entry.outcome == "INTENDED":
                open_intents[entry.pair] = entry
            elif entry.closes_intent:
                open_intents.pop(entry.pair, None)
    content = b"\n".join(lines) + (b"" if is_cut_off else b"\n")
    log = FileAuditLog(Path("log"), files=BlockFiles(content, size))
    names = {pair: (CLUSTER, parts(pair[0]), pair[1].value) for pair in pairs}
    assert log.open_intents(CLUSTER, pairs) == {
        pair: open_intents[name] for pair, name in names.items() if name in open_intents
    }


def test_of_a_long_log_only_the_end_is_read():
    entries = [
        entry_of(0, "INTENDED"),
        *(entry_of(1, "INTENDED", note=str(at)) for at in range(999)),
    ]
    files = BlockFiles(b"\n".join(map(msgspec.json.encode, entries)), 500)
    log = FileAuditLog(Path("log"), files=files)
    assert log.open_intents(CLUSTER, {PAIRS[1]})[PAIRS[1]].note == "998"
    assert files.bytes_read == 500
    assert log.open_intents(CLUSTER, ()) == {}
    assert len(log.open_intents(CLUSTER, PAIRS)) == 2


def test_open_intents_of_a_file_that_is_longer_than_a_block_or_missing(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    log = FileAuditLog(path)
    assert log.open_intents(CLUSTER, PAIRS) == {}
    log.append([entry_of(0, "INTENDED", note="w" * BLOCK_BYTES), entry_of(1, "INTENDED")])
    assert log.open_intents(CLUSTER, PAIRS).keys() == set(PAIRS[:2])
    with pytest.raises(InventoryError, match="cannot be read"):
        FileAuditLog(tmp_path).open_intents(CLUSTER, PAIRS)
