"""Parses dialect tables (TOML): the shipped one, and files of users. Errors have the place of the fault."""

import functools
import importlib.resources
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from reconciler.codecs.reader import DocumentReader
from reconciler.errors import ConfigError, TelemetryError
from reconciler.evidence.ingest.dialect import (
    ABOUT_QUOTAS,
    DECODERS,
    Dialect,
    DialectTable,
    MetricRule,
    NameRule,
    QuotaTypeLabel,
)
from reconciler.evidence.ingest.drop_reasons import DropReason
from reconciler.usage.samples import QuotaType
from reconciler.usage.tables import Measure

_T = TypeVar("_T")

_KINDS: Final = ("user", "client_id", "ip")
_REASONS: Final = {reason.word: reason for reason in DropReason}


@functools.cache
def shipped() -> DialectTable:
    """Return the dialects that come with the program."""
    text = (
        importlib.resources.files("reconciler.evidence.ingest")
        .joinpath("dialects.toml")
        .read_text()
    )
    return parsed(text, "dialects.toml")


def read(path: Path) -> DialectTable:
    """Read a file of dialects, followed by the shipped ones; a dialect of the same name replaces the shipped one.

    Raises:
        TelemetryError: The file cannot be read or is invalid.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as wrong:
        raise TelemetryError(f"cannot be read: {wrong}", location=str(path)) from wrong
    shipped_dialects = shipped()
    file_dialects = parsed(text, str(path), common=shipped_dialects)
    names = {dialect.name for dialect in file_dialects.all}
    return DialectTable(
        all=file_dialects.all
        + tuple(dialect for dialect in shipped_dialects.all if dialect.name not in names)
    )


def parsed(text: str, source: str, common: DialectTable | None = None) -> DialectTable:
    """Parse a table of dialects.

    Args:
        text: TOML.
        source: Its name in errors.
        common: Dialects whose common rules are added to those of the text.

    Raises:
        TelemetryError: The table is invalid.
    """
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as wrong:
        raise TelemetryError(f"is not TOML: {wrong}", location=source) from wrong
    try:
        dialects = _dialects(DocumentReader(table), source, common)
    except ConfigError as error:
        raise TelemetryError(
            error.message, location=source, hint="see docs/recorded-use-operations.md"
        ) from error
    return DialectTable(all=dialects)


def _dialects(top: DocumentReader, source: str, common: DialectTable | None) -> tuple[Dialect, ...]:
    fields = top.fields("dialect", optional=("common", "lost"))
    shared = fields["common"].fields(optional=("refuse", "metric")) if "common" in fields else {}
    metrics, refuse = _rows(shared, "metric", _metric), _refusals(shared)
    unread = _rows(fields, "lost", lambda lost: _pattern(lost.fields("name")["name"]))
    if common is not None:
        first = common.all[0]
        metrics += tuple(metric for metric in first.metrics if metric.measure not in ABOUT_QUOTAS)
        refuse = {"topic": DropReason.PER_TOPIC} | refuse
        unread += first.unread
    dialects = fields["dialect"].rows(
        lambda dialect: _dialect(dialect, source, metrics, refuse, unread)
    )
    names = [dialect.name for dialect in dialects]
    if not names or len(set(names)) < len(names):
        fields["dialect"].fail("an array of dialects with different names")
    return dialects


def _dialect(
    dialect: DocumentReader,
    source: str,
    common: tuple[MetricRule, ...],
    refuse: Mapping[str, DropReason],
    unread: tuple[re.Pattern[str], ...],
) -> Dialect:
    fields = dialect.fields(
        "name",
        "metric",
        optional=("about", "names", "type", "types", "refuse", "proof", "unless"),
    )
    names = fields["names"].fields(optional=_KINDS) if "names" in fields else {}
    types = fields["types"].pairs() if "types" in fields else ()
    return Dialect(
        name=fields["name"].text(),
        about=fields["about"].text() if "about" in fields else source,
        metrics=_rows(fields, "metric", _metric) + common,
        names={kind: _name(name) for kind, name in names.items()},
        type_label=_type_label(fields["type"]) if "type" in fields else None,
        types={spelling: quota_type.word(QuotaType) for spelling, quota_type in types},
        refuse={**refuse, **_refusals(fields)},
        proof=_rows(fields, "proof", _pattern),
        unless=_rows(fields, "unless", _pattern),
        unread=unread,
    )


def _metric(metric: DocumentReader) -> MetricRule:
    fields = metric.fields("name", "measure", optional=("types", "needs", "id"))
    return MetricRule(
        name=_pattern(fields["name"]),
        measure=fields["measure"].word(Measure),
        types=_rows(fields, "types", lambda quota_type: quota_type.word(QuotaType)),
        needs=_rows(fields, "needs", DocumentReader.text),
        id=_rows(fields, "id", DocumentReader.text),
    )


def _name(name: DocumentReader) -> NameRule:
    fields = name.fields("labels", optional=("decoder",))
    return NameRule(
        labels=_rows(fields, "labels", DocumentReader.text),
        decoder=fields["decoder"].choice(DECODERS) if "decoder" in fields else "plain",
    )


def _type_label(type_label: DocumentReader) -> QuotaTypeLabel:
    fields = type_label.fields("label", optional=("or", "pattern"))
    pattern = _pattern(fields["pattern"]) if "pattern" in fields else None
    if pattern is not None and "type" not in pattern.groupindex:
        fields["pattern"].fail("a pattern with a group (?P<type>…)")
    return QuotaTypeLabel(
        label=fields["label"].text(),
        unlisted=fields["or"].text() if "or" in fields else "",
        pattern=pattern,
    )


def _refusals(fields: Mapping[str, DocumentReader]) -> dict[str, DropReason]:
    refusals = fields["refuse"].pairs() if "refuse" in fields else ()
    return {label: _REASONS[reason.choice(_REASONS)] for label, reason in refusals}


def _rows(
    fields: Mapping[str, DocumentReader], name: str, read_item: Callable[[DocumentReader], _T]
) -> tuple[_T, ...]:
    """Read the items of an optional array."""
    return fields[name].rows(read_item) if name in fields else ()


def _pattern(pattern: DocumentReader) -> re.Pattern[str]:
    try:
        return re.compile(pattern.text(), re.DOTALL)
    except (re.error, OverflowError, RecursionError) as wrong:
        pattern.fail(f"a regular expression ({wrong})")
