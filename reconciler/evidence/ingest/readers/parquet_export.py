"""Reads Parquet exports in long form: one row per point, with columns for time, metric, value and labels."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from reconciler.base import bounded_json
from reconciler.errors import TelemetryError
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.readers.series import RecordedSeries, moment
from reconciler.evidence.store.files.parquet_files import (
    MOST_GROUP_BYTES,
    largest_group,
    open_parquet,
)

MAGIC: Final = b"PAR1"
"""The first bytes of a Parquet file."""

TIMES: Final = ("ts_ms", "timestamp_ms", "time_ms", "ts", "timestamp", "time")
METRICS: Final = ("metric", "name", "__name__", "metric_name")
VALUES: Final = ("value", "sample_value")
LABELS: Final = ("labels", "tags")
_ROWS: Final = 65_536
_WITH_UNIT: Final = "_ms"
_Labels = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ColumnLayout:
    """The role of each column."""

    time: str
    metric: str
    value: str
    labels: str  # the column with all labels as JSON; "" = none
    label_columns: tuple[str, ...]


def read(path: Path, counts: DropCounts) -> Iterator[RecordedSeries]:
    """Read the series of a Parquet file; a series may be yielded in several parts.

    Args:
        counts: Counts ``bad_line`` (no metric, or labels that are no JSON object of strings), ``not_a_time`` and
            ``bad_value``.

    Raises:
        TelemetryError: A column is missing or of a type that is not read, a row group is too large, or the file is
            damaged or incomplete.
    """
    try:
        with open_parquet(str(path)) as file:
            _check_groups(file.metadata, path)
            layout = _layout(file.schema_arrow, path)
            names = [layout.time, layout.metric, layout.value, *layout.label_columns]
            names += [layout.labels] if layout.labels else []
            for batch in file.iter_batches(batch_size=_ROWS, columns=names):
                yield from _series(batch, layout, counts, path)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as wrong:
        raise TelemetryError(
            f"is damaged or half-written: {_first_line(wrong)}",
            location=str(path),
            hint="export it again; a Parquet file is readable only once it was closed",
        ) from wrong


def _check_groups(metadata: pq.FileMetaData, path: Path) -> None:
    """Check that a row group, of which all columns are read at once, fits into the memory."""
    _, size = largest_group(metadata)
    if size > MOST_GROUP_BYTES:
        raise TelemetryError(
            f"has a row group of {size:,} bytes; {MOST_GROUP_BYTES:,} are allowed",
            location=str(path),
            hint="write it with smaller row groups, for example of 1,000,000 rows",
        )


def _layout(schema: pa.Schema, path: Path) -> _ColumnLayout:
    names: Sequence[str] = schema.names
    if len(set(names)) < len(names):
        raise TelemetryError("has two columns of one name", location=str(path))
    columns_by_role: dict[str, str] = {}
    for role, candidates in (("time", TIMES), ("metric", METRICS), ("value", VALUES)):
        name = next((candidate for candidate in candidates if candidate in names), None)
        if name is None:
            raise TelemetryError(
                f"has no column for the {role}: one of {', '.join(candidates)}; it has {', '.join(names[:20]) or 'none'}",
                location=str(path),
                hint="one row per point is read: time, metric, value, labels",
            )
        columns_by_role[role] = name
    labels = next((candidate for candidate in LABELS if candidate in names), "")
    used_names = {*columns_by_role.values(), labels}
    layout = _ColumnLayout(
        time=columns_by_role["time"],
        metric=columns_by_role["metric"],
        value=columns_by_role["value"],
        labels=labels,
        label_columns=tuple(name for name in names if name not in used_names),
    )
    for name in filter(None, (layout.metric, layout.labels, *layout.label_columns)):
        kind = schema.field(name).type
        if not (_is_text(kind) or (name in layout.label_columns and pa.types.is_integer(kind))):
            raise TelemetryError(
                f"column {name} holds {str(kind).partition('<')[0]}, and names and labels are text",
                location=str(path),
                hint="write one text column for each label, or all labels as a JSON object in a text column `labels`",
            )
    kind = schema.field(layout.time).type
    if not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise TelemetryError(
            f"column {layout.time} holds {kind}; times are timestamps or numbers since 1970",
            location=str(path),
        )
    kind = schema.field(layout.value).type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise TelemetryError(
            f"column {layout.value} holds {kind} and no numbers", location=str(path)
        )
    return layout


def _series(
    batch: pa.RecordBatch, layout: _ColumnLayout, counts: DropCounts, path: Path
) -> Iterator[RecordedSeries]:
    times = _times(batch.column(layout.time), is_ms=layout.time.endswith(_WITH_UNIT))
    values = batch.column(layout.value).cast(pa.float64(), safe=False).to_pylist()
    metrics = _texts(batch.column(layout.metric))
    labels_of_row = _own_labels(batch, layout)
    label_texts = [(name, _texts(batch.column(name))) for name in layout.label_columns]
    gathered: dict[tuple[str, ...], RecordedSeries] = {}
    for at in range(batch.num_rows):
        text, labels = labels_of_row(at)
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
        key = (metric, text, *(column[at] for _, column in label_texts))
        series = gathered.get(key)
        if series is None:
            all_labels = labels | {name: column[at] for name, column in label_texts if column[at]}
            series = gathered[key] = RecordedSeries.of(metric, all_labels)
        series.append(ts, value)
    yield from gathered.values()


def _own_labels(
    batch: pa.RecordBatch, layout: _ColumnLayout
) -> Callable[[int], tuple[str, _Labels | None]]:
    """Return a function from row to the text and the labels of the column with all labels."""
    if not layout.labels:
        nothing: _Labels = {}
        return lambda _: ("", nothing)
    rows = _texts(batch.column(layout.labels))
    labels_by_text: dict[str, _Labels | None] = {"": {}}

    def decoded(at: int) -> tuple[str, _Labels | None]:
        text = rows[at]
        if text not in labels_by_text:
            labels_by_text[text] = _from_json(text)
        return text, labels_by_text[text]

    return decoded


def _from_json(text: str) -> _Labels | None:
    """Return labels without empty ones; ``None`` if the text is no object, or a value is not a string."""
    try:
        parsed_labels = bounded_json.parse(text, most_bytes=bounded_json.ANSWER)
    except bounded_json.InvalidJson:
        return None
    return _text_values(parsed_labels) if isinstance(parsed_labels, dict) else None


def _text_values(labels: Mapping[Any, Any]) -> _Labels | None:
    present_labels = {name: value for name, value in labels.items() if value is not None}
    if not all(isinstance(value, str) for value in present_labels.values()):
        return None
    return {name: value for name, value in present_labels.items() if value}


def _texts(column: pa.Array) -> list[str]:
    """Return a string per row, "" for null; rows with the same dictionary entry share one string."""
    if pa.types.is_dictionary(column.type):
        entries = [text or "" for text in column.dictionary.cast(pa.string()).to_pylist()]
        return ["" if at is None else entries[at] for at in column.indices.to_pylist()]
    return [cell or "" for cell in column.cast(pa.string()).to_pylist()]


def _is_text(kind: pa.DataType) -> bool:
    """Whether a column holds text; a column without any value has the type null."""
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_null)
    return any(is_type(inner) for is_type in tests)


def _times(column: pa.Array, *, is_ms: bool) -> list[int | None]:
    if pa.types.is_timestamp(column.type):
        # Timestamps without a time zone are UTC in files of all known Parquet writers.
        return list(column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64()).to_pylist())
    return [None if cell is None else moment(cell, is_ms=is_ms) for cell in column.to_pylist()]


def _first_line(wrong: BaseException) -> str:
    lines = str(wrong).splitlines()
    return lines[0][:200] if lines else type(wrong).__name__
