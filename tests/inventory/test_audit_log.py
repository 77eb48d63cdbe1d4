"""The audit log is only appended to, private, has one line per entry, and is repaired after a crash."""

import json
from pathlib import Path

import pytest

from reconciler.errors import InventoryError
from reconciler.inventory.audit_log import (
    FileAuditLog,
    read_entries,
)


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
