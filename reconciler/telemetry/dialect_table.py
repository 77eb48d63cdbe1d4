"""Reading tables of dialects: ours, and files of others in the same words. Every slip is named with its place."""

import functools
import importlib.resources
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from reconciler.errors import TelemetryError
from reconciler.telemetry.dialects import ABOUT_QUOTAS, Dialect, Dialects, Metric, Name, TypeLabel
from reconciler.telemetry.names import DECODERS
from reconciler.telemetry.series import Word
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
def shipped() -> Dialects:
    """The dialects that come with the program."""
    text = importlib.resources.files("reconciler.telemetry").joinpath("dialects.toml").read_text()
    return parsed(text, "dialects.toml")


def read(path: Path) -> Dialects:
    """A file of one's own, put before what is shipped; a dialect of the same name replaces the shipped one.

    Raises:
        TelemetryError: It cannot be read, or says something that means nothing.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as wrong:
        raise TelemetryError(f"cannot be read: {wrong}", where=str(path)) from wrong
    ours = shipped()
    own = parsed(text, str(path), common=ours)
    names = {one.name for one in own.all}
    return Dialects(all=own.all + tuple(one for one in ours.all if one.name not in names))


def parsed(text: str, where: str, common: Dialects | None = None) -> Dialects:
    """A table.

    Args:
        text: TOML.
        where: What to call it in errors.
        common: Whose common lines hold where the text has none.

    Raises:
        TelemetryError: It says something that means nothing.
    """
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as wrong:
        raise TelemetryError(f"is no TOML: {wrong}", where=where) from wrong
    place = _Place(where)
    place.only(table, _TOP, "a table of dialects")
    shared = place.part(table, "common")
    place.only(shared, frozenset({"refuse", "metric"}), "common")
    metrics = tuple(place.metric(one, "common") for one in place.parts(shared, "metric"))
    refuse = place.refusals(shared, "common")
    lost = tuple(place.pattern(one.get("name"), "lost") for one in place.parts(table, "lost"))
    if common is not None:
        first = common.all[0]
        metrics += tuple(one for one in first.metrics if one.measure not in ABOUT_QUOTAS)
        refuse = {"topic": Word.PER_TOPIC} | refuse
        lost += first.lost
    found = tuple(
        place.dialect(one, metrics, refuse, lost) for one in place.parts(table, "dialect")
    )
    if not found:
        raise place.wrong("has no [[dialect]]")
    names = [one.name for one in found]
    if len(set(names)) < len(names):
        raise place.wrong(f"a dialect stands twice: {max(names, key=names.count)!r}")
    return Dialects(all=found)


class _Place:
    """One file: every reader of a part, and the error that names the file."""

    def __init__(self, where: str) -> None:
        self._where = where

    def wrong(self, message: str) -> TelemetryError:
        return TelemetryError(
            message, where=self._where, hint="the words are explained in docs/telemetry.md"
        )

    def only(self, table: Mapping[str, Any], known: frozenset[str], what: str) -> None:
        unknown = sorted(set(table) - known)
        if unknown:
            raise self.wrong(
                f"{what} has no field {unknown[0]!r}; it has {', '.join(sorted(known))}"
            )

    def part(self, table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        found = table.get(name, {})
        if not isinstance(found, dict):
            raise self.wrong(f"{name} is no table")
        return found

    def parts(self, table: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
        found = table.get(name, [])
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise self.wrong(f"{name} is no list of tables: write [[{name}]]")
        return found

    def text(self, value: object, what: str) -> str:
        if not isinstance(value, str) or not value:
            raise self.wrong(f"{what} must be a text")
        return value

    def texts(self, value: object, what: str) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise self.wrong(f"{what} must be a list of texts")
        return tuple(self.text(one, what) for one in value)

    def pattern(self, value: object, what: str) -> re.Pattern[str]:
        text = self.text(value, f"name or pattern of {what}")
        try:
            return re.compile(text, re.DOTALL)
        except (re.error, OverflowError, RecursionError) as wrong:
            raise self.wrong(f"{what}: {text!r} is no regular expression: {wrong}") from wrong

    def word(self, value: object, known: Mapping[str, _T], what: str) -> _T:
        if not isinstance(value, str) or value not in known:
            raise self.wrong(f"{what}: {value!r} is none of {', '.join(known)}")
        return known[value]

    def refusals(self, table: Mapping[str, Any], what: str) -> dict[str, Word]:
        words = {one.value: one for one in Word}
        return {
            label: self.word(word, words, f"refuse of {what}")
            for label, word in self.part(table, "refuse").items()
        }

    def metric(self, table: Mapping[str, Any], what: str) -> Metric:
        self.only(table, _METRIC, f"a metric of {what}")
        factor = table.get("factor", 1.0)
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < 1e18:
            raise self.wrong(f"{what}: the factor of a metric is a number above zero")
        types = {one.value: one for one in QuotaType}
        measures = {one.value: one for one in Measure}
        return Metric(
            name=self.pattern(table.get("name"), what),
            measure=self.word(table.get("measure"), measures, f"measure of {what}"),
            types=tuple(
                self.word(one, types, f"types of {what}")
                for one in self.texts(table.get("types", []), f"types of {what}")
            ),
            needs=self.texts(table.get("needs", []), f"needs of {what}"),
            id=self.texts(table.get("id", []), f"id of {what}"),
            factor=float(factor),
        )

    def name(self, table: Mapping[str, Any], what: str) -> Name:
        self.only(table, frozenset({"labels", "decoder", "none"}), what)
        decoders = {one: one for one in DECODERS}
        return Name(
            labels=self.texts(table.get("labels"), f"labels of {what}"),
            decoder=self.word(table.get("decoder", "plain"), decoders, f"decoder of {what}"),
            none=self.texts(table.get("none", []), f"none of {what}"),
        )

    def type_label(self, table: Mapping[str, Any], what: str) -> TypeLabel | None:
        if not table:
            return None
        self.only(table, frozenset({"label", "or", "pattern"}), f"type of {what}")
        pattern = table.get("pattern")
        compiled = None if pattern is None else self.pattern(pattern, f"type of {what}")
        if compiled is not None and "type" not in compiled.groupindex:
            raise self.wrong(f"type of {what}: its pattern has no group (?P<type>…)")
        return TypeLabel(
            label=self.text(table.get("label"), f"type of {what}"),
            other=str(table.get("or", "")),
            pattern=compiled,
        )

    def dialect(
        self,
        table: Mapping[str, Any],
        common: tuple[Metric, ...],
        refuse: Mapping[str, Word],
        lost: tuple[re.Pattern[str], ...],
    ) -> Dialect:
        name = self.text(table.get("name"), "name of a dialect")
        what = f"dialect {name}"
        self.only(table, _DIALECT, what)
        names = self.part(table, "names")
        self.only(names, _KINDS, f"names of {what}")
        types = {one.value: one for one in QuotaType}
        metrics = tuple(self.metric(one, what) for one in self.parts(table, "metric"))
        if not metrics:
            raise self.wrong(f"{what} has no [[dialect.metric]]")
        return Dialect(
            name=name,
            about=str(table.get("about", self._where)),
            metrics=metrics + common,
            names={
                kind: self.name(self.part(names, kind), f"{kind} of {what}") for kind in names
            },
            type_label=self.type_label(self.part(table, "type"), what),
            types={
                spelled: self.word(one, types, f"types of {what}")
                for spelled, one in self.part(table, "types").items()
            },
            refuse={**refuse, **self.refusals(table, what)},
            proof=tuple(self.pattern(one, f"proof of {what}") for one in self.texts(table.get("proof", []), what)),
            unless=tuple(self.pattern(one, f"unless of {what}") for one in self.texts(table.get("unless", []), what)),
            lost=lost,
        )  # fmt: skip
