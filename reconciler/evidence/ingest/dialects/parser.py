"""Parses dialect tables (TOML): the shipped one, and files of users. Errors have the place of the fault."""

import functools
import importlib.resources
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from reconciler.errors import TelemetryError
from reconciler.evidence.ingest.dialects.definitions import (
    ABOUT_QUOTAS,
    Dialect,
    DialectTable,
    MetricRule,
    NameRule,
    QuotaTypeLabel,
)
from reconciler.evidence.ingest.dialects.label_names import DECODERS
from reconciler.evidence.ingest.drop_reasons import DropReason
from reconciler.usage.samples import QuotaType
from reconciler.usage.tables import Measure

_T = TypeVar("_T")

_TOP: Final = frozenset({"common", "lost", "dialect"})
_DIALECT: Final = frozenset(
    {"name", "about", "names", "type", "types", "refuse", "proof", "unless", "metric"}
)
_METRIC: Final = frozenset({"name", "measure", "types", "needs", "id", "factor"})
_KINDS: Final = frozenset({"user", "client_id", "ip"})


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
    place = _DialectFile(source)
    place.only(table, _TOP, "a table of dialects")
    shared = place.part(table, "common")
    place.only(shared, frozenset({"refuse", "metric"}), "common")
    metrics = tuple(
        place.metric(metric_table, "common") for metric_table in place.parts(shared, "metric")
    )
    refuse = place.refusals(shared, "common")
    unread_patterns = tuple(
        place.pattern(metric_table.get("name"), "lost")
        for metric_table in place.parts(table, "lost")
    )
    if common is not None:
        first = common.all[0]
        metrics += tuple(metric for metric in first.metrics if metric.measure not in ABOUT_QUOTAS)
        refuse = {"topic": DropReason.PER_TOPIC} | refuse
        unread_patterns += first.unread
    dialects = tuple(
        place.dialect(dialect_part, metrics, refuse, unread_patterns)
        for dialect_part in place.parts(table, "dialect")
    )
    if not dialects:
        raise place.wrong("has no [[dialect]]")
    names = [dialect.name for dialect in dialects]
    if len(set(names)) < len(names):
        raise place.wrong(f"a dialect is given twice: {max(names, key=names.count)!r}")
    return DialectTable(all=dialects)


class _DialectFile:
    """Parses the parts of one file; errors have the file as location."""

    def __init__(self, source: str) -> None:
        self._where = source

    def wrong(self, message: str) -> TelemetryError:
        return TelemetryError(
            message, location=self._where, hint="see docs/recorded-use-operations.md"
        )

    def only(self, table: Mapping[str, Any], known_words: frozenset[str], description: str) -> None:
        unknown = sorted(set(table) - known_words)
        if unknown:
            raise self.wrong(
                f"{description} has no field {unknown[0]!r}; it has {', '.join(sorted(known_words))}"
            )

    def part(self, table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        part = table.get(name, {})
        if not isinstance(part, dict):
            raise self.wrong(f"{name} is not a table")
        return part

    def parts(self, table: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
        parts = table.get(name, [])
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            raise self.wrong(f"{name} is not a list of tables: write [[{name}]]")
        return parts

    def text(self, value: object, description: str) -> str:
        if not isinstance(value, str) or not value:
            raise self.wrong(f"{description} must be a text")
        return value

    def texts(self, value: object, description: str) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise self.wrong(f"{description} must be a list of texts")
        return tuple(self.text(element, description) for element in value)

    def pattern(self, value: object, description: str) -> re.Pattern[str]:
        text = self.text(value, f"name or pattern of {description}")
        try:
            return re.compile(text, re.DOTALL)
        except (re.error, OverflowError, RecursionError) as wrong:
            raise self.wrong(
                f"{description}: {text!r} is not a regular expression: {wrong}"
            ) from wrong

    def choice(self, value: object, choices: Mapping[str, _T], description: str) -> _T:
        if not isinstance(value, str) or value not in choices:
            raise self.wrong(f"{description}: {value!r} is not one of {', '.join(choices)}")
        return choices[value]

    def refusals(self, table: Mapping[str, Any], description: str) -> dict[str, DropReason]:
        words = {outcome.value: outcome for outcome in DropReason}
        return {
            label: self.choice(word, words, f"refuse of {description}")
            for label, word in self.part(table, "refuse").items()
        }

    def metric(self, table: Mapping[str, Any], description: str) -> MetricRule:
        self.only(table, _METRIC, f"a metric of {description}")
        factor = table.get("factor", 1.0)
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < 1e18:
            raise self.wrong(f"{description}: the factor of a metric is a number above zero")
        types = {quota_type.value: quota_type for quota_type in QuotaType}
        measures = {measure.value: measure for measure in Measure}
        return MetricRule(
            name=self.pattern(table.get("name"), description),
            measure=self.choice(table.get("measure"), measures, f"measure of {description}"),
            types=tuple(
                self.choice(type_name, types, f"types of {description}")
                for type_name in self.texts(table.get("types", []), f"types of {description}")
            ),
            needs=self.texts(table.get("needs", []), f"needs of {description}"),
            id=self.texts(table.get("id", []), f"id of {description}"),
            factor=float(factor),
        )

    def name(self, table: Mapping[str, Any], description: str) -> NameRule:
        self.only(table, frozenset({"labels", "decoder", "none"}), description)
        decoders = {decoder: decoder for decoder in DECODERS}
        return NameRule(
            labels=self.texts(table.get("labels"), f"labels of {description}"),
            decoder=self.choice(
                table.get("decoder", "plain"), decoders, f"decoder of {description}"
            ),
            none=self.texts(table.get("none", []), f"none of {description}"),
        )

    def type_label(self, table: Mapping[str, Any], description: str) -> QuotaTypeLabel | None:
        if not table:
            return None
        self.only(table, frozenset({"label", "or", "pattern"}), f"type of {description}")
        pattern = table.get("pattern")
        compiled = None if pattern is None else self.pattern(pattern, f"type of {description}")
        if compiled is not None and "type" not in compiled.groupindex:
            raise self.wrong(f"type of {description}: its pattern has no group (?P<type>…)")
        return QuotaTypeLabel(
            label=self.text(table.get("label"), f"type of {description}"),
            unlisted=str(table.get("or", "")),
            pattern=compiled,
        )

    def dialect(
        self,
        table: Mapping[str, Any],
        common: tuple[MetricRule, ...],
        refuse: Mapping[str, DropReason],
        unread_patterns: tuple[re.Pattern[str], ...],
    ) -> Dialect:
        name = self.text(table.get("name"), "name of a dialect")
        description = f"dialect {name}"
        self.only(table, _DIALECT, description)
        names = self.part(table, "names")
        self.only(names, _KINDS, f"names of {description}")
        types = {quota_type.value: quota_type for quota_type in QuotaType}
        metrics = tuple(
            self.metric(metric_table, description) for metric_table in self.parts(table, "metric")
        )
        if not metrics:
            raise self.wrong(f"{description} has no [[dialect.metric]]")
        return Dialect(
            name=name,
            about=str(table.get("about", self._where)),
            metrics=metrics + common,
            names={
                kind: self.name(self.part(names, kind), f"{kind} of {description}")
                for kind in names
            },
            type_label=self.type_label(self.part(table, "type"), description),
            types={
                spelling: self.choice(type_value, types, f"types of {description}")
                for spelling, type_value in self.part(table, "types").items()
            },
            refuse={**refuse, **self.refusals(table, description)},
            proof=tuple(
                self.pattern(expression, f"proof of {description}")
                for expression in self.texts(table.get("proof", []), description)
            ),
            unless=tuple(
                self.pattern(expression, f"unless of {description}")
                for expression in self.texts(table.get("unless", []), description)
            ),
            unread=unread_patterns,
        )
