"""The audit log is only appended to, private, has one line per entry, and is repaired after a crash."""

import json
from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.base.durable_files import BLOCK_BYTES, DurableFiles
from reconciler.codecs.audit_log import OpenIntents, apply_entry
from reconciler.errors import InventoryError
from reconciler.inventory.audit_log import FileAuditLog, read_entries
from reconciler.quota.entity import entity, parts
from reconciler.quota.keys import Key
from reconciler.quota.results.audit_entry import AuditEntry
from reconciler.render.json_values import read_value, written_value
from tests.fakes.audit_entry import audit_entry

CLUSTER = "lkc-1"
PAIRS = [
    (entity(user=user), key)
    for user in ("alice", "bob")
    for key in (Key.PRODUCER_BYTE_RATE, Key.CONSUMER_BYTE_RATE)
]


def test_entries_are_lines_that_are_only_appended(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    log = FileAuditLog(path)
    log.append([audit_entry(), audit_entry(author="a\nb\u202e", settled_at="t", settled_by="x")])
    first = path.read_bytes()
    log.append([audit_entry(author="c")])
    assert path.read_bytes().startswith(first)
    assert first.isascii()
    assert [json.loads(line)["who"] for line in path.read_text().splitlines()] == [
        "ci",
        "a\nb\u202e",
        "c",
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
    assert list(read_entries(path)) == entries
    assert [repr(read_value(entry.before)) for entry in read_entries(path)] == [
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
    assert [entry.author for entry in read_entries(path)] == ["one", "two"]


LINE = msgspec.json.encode(audit_entry())


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"[]", "Expected `object`"),
        (b'{"v":2}', r"Invalid enum value 2 - at `\$\.v`"),
        (LINE.replace(b'"v":1,', b""), "missing required field `v`"),
        (LINE.replace(b'"v":1', b'"v":true'), r"\$\.v"),
        (LINE.replace(b'"outcome":"APPLIED",', b""), "missing required field `outcome`"),
        (LINE.replace(b'"after":5', b'"after":true'), r"\$\.after"),
        (LINE.replace(b'"after":5', b'"after":"many"'), r"\$\.after"),
        (LINE.replace(b'"after":5', b'"after":1' + b"0" * 400), r"\$\.after"),
        (LINE.replace(b'[["user","alice"]]', b'"alice"'), r"\$\.entity"),
        (LINE.replace(b'"after":5', b'"after":"\\ud800"'), "surrogates not allowed"),
        (b'{"\\ud800":1,' + LINE[1:], "surrogates not allowed"),
        (LINE[:-1] + b',"x":' + b"[" * 9_000 + b"]" * 9_000 + b"}", None),
    ],
)
def test_a_line_that_is_no_entry_is_an_error_with_its_place_and_holds_no_intent(
    tmp_path: Path, line: bytes, reason: str | None
):
    path = tmp_path / "audit.jsonl"
    path.write_bytes(LINE + b"\n" + line + b"\n")
    if reason is None:  # nested too deep: as if it were cut off
        assert list(read_entries(path)) == [audit_entry()]
    else:
        with pytest.raises(
            InventoryError, match=rf"audit\.jsonl:2: not an audit entry of version 1: .*{reason}"
        ):
            list(read_entries(path))
    assert FileAuditLog(path).open_intents(CLUSTER, PAIRS) == {}


def test_a_value_without_an_exponent_is_read_as_other_tools_write_it(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    path.write_bytes(LINE.replace(b'"after":5', b'"after":9223372036854776000') + b"\n")
    assert [entry.after for entry in read_entries(path)] == [2.0**63]


def test_fields_of_another_tool_are_left_out(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b'{"ticket":[1],' + LINE[1:] + b"\n")
    assert list(read_entries(path)) == [audit_entry()]


def test_an_outcome_without_a_value_from_before_has_that_of_its_intent(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    outcome = audit_entry(before=msgspec.UNSET, intended_at="T")
    FileAuditLog(path).append([audit_entry(outcome="INTENDED", before=3), outcome, outcome])
    assert [entry.before for entry in read_entries(path)] == [3, 3, None]


def test_a_log_that_cannot_be_written_is_an_error(tmp_path: Path):
    with pytest.raises(InventoryError, match="cannot be written"):
        FileAuditLog(tmp_path / "no" / "audit").append([audit_entry()])
    with pytest.raises(InventoryError, match="cannot be read"):
        list(read_entries(tmp_path / "gone"))


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
    open_intents: OpenIntents = {}
    for line in lines:
        if line.startswith(b'{"v":1') and line.endswith(b"}"):
            apply_entry(open_intents, msgspec.json.decode(line, type=AuditEntry))
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
