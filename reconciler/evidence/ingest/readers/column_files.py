"""Reads Parquet and CSV exports in long form: one row per point, with columns for time, metric, labels and value."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from reconciler.base import bounded_json
from reconciler.errors import TelemetryError
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.readers.series import (
    RecordedSeries,
    TimeUnit,
    moment,
    number_of,
)
from reconciler.evidence.ingest.readers.text_files import TextFile
from reconciler.evidence.store.files.parquet_files import open_parquet, unpacked_size

TIMES: Final = ("ts_ms", "timestamp_ms", "time_ms", "ts", "timestamp", "time")
METRICS: Final = ("metric", "name", "__name__", "metric_name")
VALUES: Final = ("value", "sample_value")
LABELS: Final = ("labels", "tags")
_ROWS: Final = 65_536
MOST_VALUES: Final = 1 << 21
"""Maximum number of label values of the Parquet rows that are read together."""

MOST_LABELS: Final = 1 << 24
"""Maximum bytes of labels that are decoded together."""

_WITH_UNIT: Final = "_ms"
_Labels = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ColumnLayout:
    """The role of each column."""

    time: str
    metric: str
    value: str
    labels: str
    label_columns: tuple[str, ...]
    unit: TimeUnit


def parquet(
    path: Path, counts: DropCounts, unit: TimeUnit = TimeUnit.AUTO
) -> Iterator[RecordedSeries]:
    """Read the series of a Parquet file with any extension; arguments and errors as in :func:`csv`."""
    return _read(_parquet, path, counts, unit)


def csv(path: Path, counts: DropCounts, unit: TimeUnit = TimeUnit.AUTO) -> Iterator[RecordedSeries]:
    """Read the series of a CSV file with a header; a series may be yielded in several parts.

    Args:
        path: Text, or ``.gz``.
        counts: Counts ``bad_line`` (wrong number of columns, no metric, invalid labels), ``not_a_time`` and
            ``bad_value``.
        unit: The unit of times.

    Raises:
        TelemetryError: A column is missing, or the file is damaged or incomplete.
    """
    return _read(_csv, path, counts, unit)


def _read(
    opened: Callable[[Path, DropCounts], Iterator[pa.RecordBatch]],
    path: Path,
    counts: DropCounts,
    unit: TimeUnit,
) -> Iterator[RecordedSeries]:
    try:
        for batch in opened(path, counts):
            layout = _layout(batch.schema.names, unit, path)
            yield from _series(batch, layout, path, counts)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as wrong:
        raise TelemetryError(
            f"is damaged or half-written: {_first_line(wrong)}",
            location=str(path),
            hint="export it again; a Parquet file is readable only once it was closed",
        ) from wrong


def _parquet(path: Path, counts: DropCounts) -> Iterator[pa.RecordBatch]:
    del counts
    with open_parquet(str(path)) as file:
        layout = _layout(file.schema_arrow.names, TimeUnit.AUTO, path)
        for batch in file.iter_batches(batch_size=_batch_rows(file.metadata)):
            yield from _in_pieces(batch, layout.labels, path)


def _batch_rows(metadata: pq.FileMetaData) -> int:
    """Return the number of rows to read together: fewer if rows have many labels, each of which is a value."""
    rows = _ROWS
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        values = max((group.column(at).num_values for at in range(group.num_columns)), default=0)
        if values > group.num_rows:
            rows = min(rows, MOST_VALUES * group.num_rows // values)
    return max(1, rows)


def _in_pieces(batch: pa.RecordBatch, labels: str, path: Path) -> Iterator[pa.RecordBatch]:
    """Yield parts of a batch whose decoded labels take at most :data:`MOST_LABELS` bytes.

    Applies to labels in a map or struct; a string column is decoded once per distinct value (:func:`_texts`).

    Raises:
        TelemetryError: A single row takes more.
    """
    size = (
        unpacked_size(batch.column(labels))
        if labels and not _is_text(batch.schema.field(labels).type)
        else 0
    )
    if size <= MOST_LABELS:
        yield batch
        return
    if batch.num_rows == 1:
        raise TelemetryError(
            f"column {labels} has a row with {size:,} bytes of labels; {MOST_LABELS:,} are allowed",
            location=str(path),
            hint="check that this is a file of metrics; a series has few labels",
        )
    half = batch.num_rows // 2
    yield from _in_pieces(batch.slice(0, half), labels, path)
    yield from _in_pieces(batch.slice(half), labels, path)


def _csv(path: Path, counts: DropCounts) -> Iterator[pa.RecordBatch]:
    def bad(row: pyarrow.csv.InvalidRow) -> str:
        counts.add(
            DropReason.BAD_LINE,
            1,
            f"{path}:{row.number or '?'}: {row.actual_columns} columns instead of {row.expected_columns}",
        )
        return "skip"

    # Read once before: Arrow's handler of invalid rows fails on invalid UTF-8.
    with TextFile(path) as file:
        size = 0
        while block := file.read():
            size += len(block)
        if file.truncated:
            raise TelemetryError(
                "is damaged or half-written: it ends too early", location=str(path)
            )
        if not size:
            raise TelemetryError("is empty", location=str(path))
    with pa.input_stream(path, compression="detect") as stream:
        anything = pyarrow.csv.ParseOptions(
            invalid_row_handler=lambda _: "skip", newlines_in_values=True
        )
        header = pyarrow.csv.open_csv(stream, parse_options=anything).schema.names
    # Read every column as strings: 007 is a client id and not a number.
    options = pyarrow.csv.ConvertOptions(
        column_types={name: pa.string() for name in header}, strings_can_be_null=False
    )
    with pa.input_stream(path, compression="detect") as stream:
        reader = pyarrow.csv.open_csv(
            stream,
            parse_options=pyarrow.csv.ParseOptions(
                invalid_row_handler=bad, newlines_in_values=True
            ),
            convert_options=options,
        )
        _layout(reader.schema.names, TimeUnit.AUTO, path)
        yield from reader


def _layout(names: Sequence[str], unit: TimeUnit, path: Path) -> _ColumnLayout:
    if len(set(names)) < len(names):
        raise TelemetryError("has two columns of one name", location=str(path))
    columns_by_role = {}
    for role, candidates in (("time", TIMES), ("metric", METRICS), ("value", VALUES)):
        name = next((candidate for candidate in candidates if candidate in names), None)
        if name is None:
            raise TelemetryError(
                f"has no column for the {role}: one of {', '.join(candidates)}; it has {', '.join(names[:20]) or 'none'}",
                location=str(path),
                hint="one row per point is read: time, metric, labels, value",
            )
        columns_by_role[role] = name
    labels = next((candidate for candidate in LABELS if candidate in names), "")
    used_names = {*columns_by_role.values(), labels}
    if unit is TimeUnit.AUTO and columns_by_role["time"].endswith(_WITH_UNIT):
        unit = TimeUnit.MILLISECONDS
    return _ColumnLayout(
        time=columns_by_role["time"],
        metric=columns_by_role["metric"],
        value=columns_by_role["value"],
        labels=labels,
        label_columns=tuple(name for name in names if name not in used_names),
        unit=unit,
    )


def _series(
    batch: pa.RecordBatch, layout: _ColumnLayout, path: Path, counts: DropCounts
) -> Iterator[RecordedSeries]:
    times = _times(batch.column(layout.time), layout.unit, path)
    values = _values(batch.column(layout.value), layout.value, path)
    metrics = _texts(batch.column(layout.metric))
    labels_of_row = _own_labels(batch, layout, path)
    label_texts = [(name, _texts(batch.column(name))) for name in layout.label_columns]
    gathered: dict[tuple[str, ...], RecordedSeries] = {}
    for at in range(batch.num_rows):
        labels = labels_of_row(at)
        metric = metrics[at]
        if not metric or labels is None:
            counts.add(
                DropReason.BAD_LINE, 1, f"{path}: a row has no metric, or labels that are none"
            )
            continue
        ts, value = times[at], values[at]
        if ts is None or value is None:
            counts.add(DropReason.NOT_A_TIME if ts is None else DropReason.BAD_VALUE)
            continue
        key = (
            metric,
            *labels.keys(),
            "",
            *labels.values(),
            "",
            *(column[at] for _, column in label_texts),
        )
        series = gathered.get(key)
        if series is None:
            all_labels = labels | {name: column[at] for name, column in label_texts if column[at]}
            series = gathered[key] = RecordedSeries.of(metric, all_labels)
        series.append(ts, value)
    yield from gathered.values()


def _own_labels(
    batch: pa.RecordBatch, layout: _ColumnLayout, path: Path
) -> Callable[[int], _Labels | None]:
    """Return a function from row to labels, for the column with all labels: a map, a struct or JSON."""
    if not layout.labels:
        nothing: _Labels = {}
        return lambda _: nothing
    column = batch.column(layout.labels)
    if pa.types.is_map(column.type):
        maps = column.to_pylist()
        return lambda at: _mapping(dict(maps[at] or ()))
    if pa.types.is_struct(column.type):
        structs = column.to_pylist()
        return lambda at: _mapping(structs[at] or {})
    if not _is_text(column.type):
        raise TelemetryError(
            f"column {layout.labels} holds neither a map, a struct nor JSON", location=str(path)
        )
    rows = _texts(column)
    labels_by_text: dict[str, _Labels | None] = {}

    def decoded(at: int) -> _Labels | None:
        text = rows[at] or "{}"
        if text not in labels_by_text:
            labels_by_text[text] = _from_json(text)
        return labels_by_text[text]

    return decoded


def _from_json(text: str) -> _Labels | None:
    try:
        parsed_labels = bounded_json.parse(text, most_bytes=bounded_json.ANSWER)
    except bounded_json.InvalidJson:
        return None
    return _mapping(parsed_labels) if isinstance(parsed_labels, dict) else None


def _mapping(raw_labels: Mapping[Any, Any]) -> _Labels | None:
    """Return sorted labels without empty ones; ``None`` if a name or value is not a string."""
    present_labels = {name: value for name, value in raw_labels.items() if value is not None}
    if not all(
        isinstance(name, str) and isinstance(value, str) for name, value in present_labels.items()
    ):
        return None
    return {name: present_labels[name] for name in sorted(present_labels) if present_labels[name]}


def _texts(column: pa.Array) -> list[str]:
    """Return a string per row, "" for null; rows with the same dictionary entry share one string."""
    if pa.types.is_dictionary(column.type):
        entries = [text or "" for text in column.dictionary.cast(pa.string()).to_pylist()]
        return ["" if at is None else entries[at] for at in column.indices.to_pylist()]
    return [cell or "" for cell in column.cast(pa.string()).to_pylist()]


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind)
    )


def _values(column: pa.Array, name: str, path: Path) -> list[float | None]:
    kind = column.type
    if _is_text(kind):
        return [number_of(text) for text in _texts(column)]
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return list(column.cast(pa.float64(), safe=False).to_pylist())
    raise TelemetryError(f"column {name} holds {kind} and no numbers", location=str(path))


def _times(column: pa.Array, unit: TimeUnit, path: Path) -> list[int | None]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        # Timestamps without a time zone are UTC in files of all known Parquet writers.
        return list(column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64()).to_pylist())
    if _is_text(kind):
        return [_from_text(text, unit) for text in _texts(column)]
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return [None if cell is None else moment(cell, unit) for cell in column.to_pylist()]
    raise TelemetryError(f"unsupported type {kind} of the time column", location=str(path))


def _from_text(text: str, unit: TimeUnit) -> int | None:
    if unit is not TimeUnit.ISO:
        number = int(text) if text.isdecimal() and len(text) < 20 else number_of(text)
        if number is not None:
            return moment(number, unit)
    try:
        parsed_time = datetime.fromisoformat(text)
    except ValueError:
        return None
    # A time without a zone is ambiguous.
    return None if parsed_time.tzinfo is None else round(parsed_time.timestamp() * 1000)


def _first_line(wrong: BaseException) -> str:
    lines = str(wrong).splitlines()
    return lines[0][:200] if lines else type(wrong).__name__
