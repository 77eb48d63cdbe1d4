"""The recording as files: written with pseudonyms from runs, and read by tests without a broker."""

import gzip
import hashlib
import hmac
import json
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from reconciler.codecs.state import state_document
from reconciler.quota.entity import Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, limits_of
from reconciler.render.json_values import dump
from tests.recording.broker_run import Phase, Recorded, subject
from tests.recording.runs import Group, Level
from tests.recording.truth import Way

FOLDER: Final = Path(__file__).with_name("fixture")
PHASES: Final = ("free", "limited")
Rename = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One group of one run, as the fixture has it."""

    kind: str  # `produce` or `fetch`
    user: str  # user of its bucket, "" = none; names are pseudonyms
    client_id: str  # client id of its bucket
    shape: str  # shape of its demand
    connections: int  # number of connections
    record: int  # bytes of a record
    fetch_bytes: int  # maximum size of a fetch of a consumer
    linger_ms: int  # `linger.ms` of a producer
    limit: int  # bytes per second in the second half
    free: tuple[Way, ...]  # its records without limits
    limited: tuple[Way, ...]  # the same records with limits


@dataclass(frozen=True, slots=True, kw_only=True)
class FixtureRun:
    """One run of the fixture: spans in epoch milliseconds."""

    number: int
    version: str
    level: Level
    cluster_id: str
    scrape_ms: int
    load: tuple[float, float]
    driver_ms: int  # 99 of 100 records were sent at most so late; 0 = not recorded
    free: tuple[int, int]
    limited: tuple[int, int]
    cases: tuple[Case, ...]
    matrix: dict[str, Any]


# ---- writing ------------------------------------------------------------------------------------


def pseudonyms(key: bytes) -> Rename:
    """A keyed HMAC of names; "" and the broker's own names stay."""

    def rename(name: str) -> str:
        if not name:
            return name
        return "p-" + hmac.new(key, name.encode(), hashlib.sha256).hexdigest()[:12]

    return rename


def write(
    recorded: Recorded, key: bytes, folder: Path = FOLDER, *, scrape_ms: int = 5_000
) -> list[Path]:
    """Write the files of one run; the same run and key give the same bytes.

    Args:
        recorded: The run.
        key: Key of the pseudonyms; deleted after the recording.
        folder: Folder of the files.
        scrape_ms: Scrape step.
    """
    rename, run = pseudonyms(key), recorded.run
    stem = f"run-{run.number}"
    about = {
        "run": run.number,
        "kafka": run.version,
        "level": run.level,
        "clusterId": recorded.cluster_id,
        "scrapeMs": scrape_ms,
        "load": {
            "median": round(statistics.median(recorded.load), 2),
            "most": round(max(recorded.load), 2),
        },
        "driver": _lateness(recorded),
        "spans": {name: [phase.from_ms, phase.to_ms] for name, phase in _phases(recorded)},
        "groups": [_group(recorded, group, rename) for group in run.groups],
    }
    contents = {
        f"{stem}.json": json.dumps(about, indent=1) + "\n",
        f"{stem}.matrix.json.gz": json.dumps(
            _renamed(recorded.matrix, rename), separators=(",", ":")
        ),
        f"{stem}.records.csv.gz": _records(recorded),
    }
    for name, limits, at in (
        ("free", recorded.before, recorded.free.from_ms - 12_000),
        ("limited", recorded.after, recorded.limited.from_ms - 12_000),
    ):
        read_text = _instant(at)
        state = _state(limits, rename)
        contents[f"{stem}.{name}.quotas.json"] = dump(
            state_document(state, cluster_id=recorded.cluster_id, taken_at=read_text)
        )
    folder.mkdir(exist_ok=True)
    for name, text in contents.items():
        raw = text.encode()
        (folder / name).write_bytes(gzip.compress(raw, 9, mtime=0) if name.endswith(".gz") else raw)
    return [folder / name for name in contents]


def _phases(recorded: Recorded) -> tuple[tuple[str, Phase], ...]:
    return ("free", recorded.free), ("limited", recorded.limited)


def _lateness(recorded: Recorded) -> dict[str, int]:
    """How late the driver sent records, in milliseconds: 99 of 100 of them, and the latest."""
    late = sorted(
        record.sent_ms - record.due_ms for _, phase in _phases(recorded) for record in phase.records
    )
    return {"most99": late[len(late) * 99 // 100], "most": late[-1]}


def _group(recorded: Recorded, group: Group, rename: Rename) -> dict[str, object]:
    who = subject(recorded.run.level, group.name)
    return {
        "kind": group.kind,
        "user": rename(who[0] or ""),
        "clientId": rename(who[1] or ""),
        "shape": group.shape,
        "connections": group.connections,
        "recordBytes": group.record,
        "fetchBytes": group.fetch_bytes,
        "lingerMs": group.linger_ms,
        "limit": recorded.limits[group.name],
    }


def _renamed(matrix: Mapping[str, Any], rename: Rename) -> dict[str, Any]:
    """The response with other names and only one instance, because a loopback port has no meaning."""
    series = [
        {
            "metric": {
                label: _label(label, value, rename) for label, value in result["metric"].items()
            },
            "values": result["values"],
        }
        for result in matrix["data"]["result"]
    ]
    series.sort(key=lambda result: sorted(result["metric"].items()))
    return {"status": "success", "data": {"resultType": "matrix", "result": series}}


def _label(label: str, value: str, rename: Rename) -> str:
    if label in {"user", "client_id"}:
        return rename(value)
    return "broker-1:7071" if label == "instance" else value


def _records(recorded: Recorded) -> str:
    """``phase,group,due since the one before,sent late,took``; took is empty if a record never arrived."""
    lines = []
    for name, phase in _phases(recorded):
        for place, group in enumerate(recorded.run.groups):
            group_records = sorted(
                (record for record in phase.records if record.group == group.name),
                key=lambda record: record.due_ms,
            )
            before = [phase.from_ms, *(record.due_ms for record in group_records)]
            for record, (last, due) in zip(group_records, pairwise(before), strict=True):
                took = "" if record.done_ms is None else record.done_ms - due
                lines.append(f"{name},{place},{due - last},{record.sent_ms - due},{took}\n")
    return "".join(lines)


def _state(limits: tuple[tuple[Entity, str, float], ...], rename: Rename) -> QuotaState:
    merged: dict[Entity, dict[Key, float]] = {}
    for who, key, value in limits:
        merged.setdefault(_pseudonym(who, rename), {})[Key(key)] = value
    return QuotaState(limits={who: limits_of(values) for who, values in merged.items()})


def _pseudonym(who: Entity, rename: Rename) -> Entity:
    user, client_id, ip = who
    parts = {"user": user, "client_id": client_id, "ip": ip}
    arguments = {
        name: rename(part) if isinstance(part, str) else part
        for name, part in parts.items()
        if part is not False
    }
    return entity(**arguments)


def _instant(at_ms: int) -> str:
    from datetime import UTC, datetime  # noqa: PLC0415

    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# ---- reading ------------------------------------------------------------------------------------


def numbers(folder: Path = FOLDER) -> tuple[int, ...]:
    """The numbers of the runs."""
    stems = (path.name.removesuffix(".json") for path in folder.glob("run-*.json"))
    return tuple(sorted(int(stem[4:]) for stem in stems if stem[4:].isdigit()))


def read(number: int, folder: Path = FOLDER) -> FixtureRun:
    """One run of the fixture."""
    about = json.loads((folder / f"run-{number}.json").read_text(encoding="utf-8"))
    matrix = json.loads(gzip.decompress((folder / f"run-{number}.matrix.json.gz").read_bytes()))
    spans = {name: (about["spans"][name][0], about["spans"][name][1]) for name in PHASES}
    ways: dict[tuple[str, int], list[Way]] = {}
    due: dict[tuple[str, int], int] = {}
    rows = gzip.decompress((folder / f"run-{number}.records.csv.gz").read_bytes()).decode()
    for row in rows.splitlines():
        phase, group, since, _, took = row.split(",")
        who = phase, int(group)
        due[who] = due.get(who, spans[phase][0]) + int(since)
        # A record that never arrived waited at least until the end.
        late = int(took) if took else spans[phase][1] - due[who]
        ways.setdefault(who, []).append(Way(due_ms=due[who], took_ms=late, arrived=bool(took)))
    return FixtureRun(
        number=number,
        version=about["kafka"],
        level=about["level"],
        cluster_id=about["clusterId"],
        scrape_ms=about["scrapeMs"],
        load=(about["load"]["median"], about["load"]["most"]),
        driver_ms=about.get("driver", {}).get("most99", 0),
        free=spans["free"],
        limited=spans["limited"],
        matrix=matrix,
        cases=tuple(
            Case(
                kind=entry["kind"],
                user=entry["user"],
                client_id=entry["clientId"],
                shape=entry["shape"],
                connections=entry["connections"],
                record=entry["recordBytes"],
                fetch_bytes=entry["fetchBytes"],
                linger_ms=entry.get("lingerMs", 0),
                limit=entry["limit"],
                free=tuple(ways["free", place]),
                limited=tuple(ways["limited", place]),
            )
            for place, entry in enumerate(about["groups"])
        ),
    )
