"""Parses dialect tables (TOML): the shipped one, and files of users. Errors have the place of the fault."""

import functools
import importlib.resources
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from msgspec import field

from reconciler.codecs.reader import converted
from reconciler.errors import ConfigError, TelemetryError
from reconciler.evidence.ingest.dialect import (
    ABOUT_QUOTAS,
    Dialect,
    DialectPart,
    DialectTable,
    MetricRule,
    NameRule,
    QuotaTypeLabel,
)
from reconciler.evidence.ingest.drop_reasons import DropReason
from reconciler.usage.samples import QuotaType

_REASONS: Final = {reason.word: reason for reason in DropReason}


class _DialectRow(DialectPart, frozen=True):
    name: str
    metrics: tuple[MetricRule, ...] = field(name="metric")
    about: str = ""
    names: dict[Literal["user", "client_id", "ip"], NameRule] = field(default_factory=dict)
    type_label: QuotaTypeLabel | None = field(name="type", default=None)
    types: dict[str, QuotaType] = field(default_factory=dict[str, QuotaType])
    refuse: dict[str, str] = field(default_factory=dict[str, str])
    proof: tuple[re.Pattern[str], ...] = ()
    unless: tuple[re.Pattern[str], ...] = ()


class _CommonRow(DialectPart, frozen=True):
    metrics: tuple[MetricRule, ...] = field(name="metric", default=())
    refuse: dict[str, str] = field(default_factory=dict[str, str])


class _LostName(DialectPart, frozen=True):
    name: re.Pattern[str]


class _DialectFile(DialectPart, frozen=True):
    dialects: tuple[_DialectRow, ...] = field(name="dialect")
    common: _CommonRow = _CommonRow()
    lost: tuple[_LostName, ...] = ()

    def __post_init__(self) -> None:
        names = {dialect.name for dialect in self.dialects}
        if not names or len(names) < len(self.dialects):
            raise ValueError("dialect should be an array of dialects with different names")


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
        file = converted(table, _DialectFile, "", hook=_pattern)
        refusals = [_reasons(row.refuse, f"dialect[{at}]") for at, row in enumerate(file.dialects)]
        refuse = _reasons(file.common.refuse, "common")
    except ConfigError as error:
        raise TelemetryError(
            error.message, location=source, hint="see docs/recorded-use-operations.md"
        ) from error
    metrics = file.common.metrics
    unread = tuple(lost.name for lost in file.lost)
    if common is not None:
        first = common.all[0]
        metrics += tuple(metric for metric in first.metrics if metric.measure not in ABOUT_QUOTAS)
        refuse = {"topic": DropReason.PER_TOPIC} | refuse
        unread += first.unread
    return DialectTable(
        all=tuple(
            Dialect(
                name=row.name,
                about=row.about or source,
                metrics=row.metrics + metrics,
                names={str(kind): rule for kind, rule in row.names.items()},
                type_label=row.type_label,
                types=row.types,
                refuse=refuse | own_refusals,
                proof=row.proof,
                unless=row.unless,
                unread=unread,
            )
            for row, own_refusals in zip(file.dialects, refusals, strict=True)
        )
    )


def _reasons(refuse: Mapping[str, str], place: str) -> dict[str, DropReason]:
    for label, word in refuse.items():
        if word not in _REASONS:
            raise ConfigError(
                f"{place}.refuse.{label} should be one of {', '.join(sorted(_REASONS))}, not {word!r}"
            )
    return {label: _REASONS[word] for label, word in refuse.items()}


def _pattern(_: type, text: object) -> re.Pattern[str]:
    """Return a pattern of TOML.

    Raises:
        ValueError: It is not a regular expression.
    """
    if isinstance(text, str):
        with suppress(re.error, OverflowError, RecursionError):
            return re.compile(text, re.DOTALL)
    raise ValueError(f"should be a regular expression, not {text!r}")
