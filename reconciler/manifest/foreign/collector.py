"""The result of reading a foreign format: declarations, limits that were lost, and notes."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import ManifestErrors, QuotaValueError
from reconciler.manifest.export import document_names
from reconciler.manifest.writer import unwritable_entity, unwritable_value
from reconciler.quota.entity import ABSENT, ENTITY_TYPES, Entity, Slot, entity, parts, sort_key
from reconciler.quota.keys import COLUMN_OF, Key, check_value, key_columns
from reconciler.quota.planner.desired_state import NO_LINES, Declaration, Lines
from reconciler.quota.state import Limits, limits_of

Parts: TypeAlias = tuple[tuple[str, str | None], ...]
"""``(type, name)`` of each slot, name ``None`` for the default; types may be foreign."""

Files: TypeAlias = Sequence[tuple[str, str]]
"""``(path, text)``; the path is only for display."""

Slots: TypeAlias = Mapping[str, Slot]
"""Entity type to its slot; types that are missing are absent."""

MAX_DIGITS: Final = 400
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?")
NO_KEY: Final = "a quota key that manifests do not support"


class Place(Protocol):
    """Where something is written: ``line`` from 1; 0 if the format has no lines."""

    @property
    def path(self) -> str:
        """The file."""

    @property
    def line(self) -> int:
        """The line."""


class FileLine(Struct, frozen=True, gc=False):
    """A place in a file that is read by lines."""

    path: str
    line: int


class ImportRemark(Struct, frozen=True, kw_only=True, gc=False):
    """One remark about a foreign file."""

    path: str
    line: int  # line, from 1; 0 if the format has no lines
    text: str
    about: Parts = ()
    key: str = ""  # the limit, with the tool's name; "" for all of them
    value: str = ""


class ImportedLimit(Struct, frozen=True, kw_only=True, gc=False):
    """One limit as the tool has it."""

    key: str  # Kafka's name, or the tool's own if Kafka has none
    text: str
    line: int
    # Whether it is a printed float64 (as in brokers) and not a number that a user typed.
    live: bool = False
    is_known: bool = True  # whether the tool supports this limit; otherwise it never set it

    def value(self) -> float:
        """Return the number.

        A printed float64 is parsed as the original float64. A typed whole number stays exact, so that one without an
        exact float64 is detected.

        Raises:
            QuotaValueError: It is not a number, or readers parse it differently (``017``).
        """
        match = _NUMBER.fullmatch(self.text) if len(self.text) <= MAX_DIGITS else None
        if match is None:
            raise QuotaValueError("not a decimal number")
        is_integer = match.group(1) is None and match.group(2) is None
        return int(self.text) if is_integer and not self.live else float(self.text)


class ImportResult(Struct, frozen=True, kw_only=True, gc=False):
    """Foreign files as declarations."""

    # One per entity, sorted by entity; `path` and `line` are those of the foreign file.
    declarations: tuple[Declaration, ...]
    # Limits that no manifest can contain, or that are invalid; sorted by place.
    losses: tuple[ImportRemark, ...]
    notes: tuple[ImportRemark, ...]  # remarks about limits that were read; sorted by place


class ImportCollector:
    """Collects what readers return."""

    def __init__(self, *, namespace: str) -> None:
        self._namespace = namespace
        self._found: dict[Entity, Declaration] = {}
        self._losses: list[ImportRemark] = []
        self._notes: list[ImportRemark] = []
        self._paths: set[str] = set()

    def result(self) -> ImportResult:
        """Return everything so far, sorted; documents have the names that an export of the same entities has."""
        names = document_names(self._found)
        return ImportResult(
            declarations=tuple(
                replace(self._found[entity], document=f"{self._namespace}/{names[entity]}")
                for entity in sorted(self._found, key=sort_key)
            ),
            losses=tuple(sorted(self._losses, key=_place)),
            notes=tuple(sorted(self._notes, key=_place)),
        )

    def understand(self, place: Place) -> None:
        """Record that something in a file is of the tool, also if it has no quotas."""
        self._paths.add(place.path)

    def skip(self, place: Place, kind: str, name: str) -> None:
        """Pass over a resource that the reader does not read; it is a loss if its kind is about quotas."""
        if "quota" in kind.casefold():
            self.lose(
                place, f"{kind} {name} is not a supported resource; declare its quotas by hand"
            )

    def lose_files_without_content(self, files: Files, message: str) -> None:
        """Add a loss for each file in which the reader understood nothing."""
        for path, _ in files:
            if path not in self._paths:
                self.lose(FileLine(path, 0), message)

    def lose(self, place: Place, text: str, subject: Parts = ()) -> None:
        """Add a loss."""
        self.understand(place)
        self._losses.append(
            ImportRemark(path=place.path, line=place.line, text=text, about=subject)
        )

    def note(self, place: Place, text: str, subject: Parts = ()) -> None:
        """Add a note about a limit that was read."""
        self.understand(place)
        self._notes.append(ImportRemark(path=place.path, line=place.line, text=text, about=subject))

    @contextmanager
    def entry(self) -> Iterator[None]:
        """Context for reading one entry: an error inside loses only this entry."""
        try:
            yield
        except ManifestErrors as errors:
            for problem in errors.problems:
                self.lose(problem, problem.message)

    def add(self, place: Place, quota_limits: Iterable[ImportedLimit], slots: Slots) -> None:
        """Add the limits of one entity. Those that a manifest cannot declare become losses."""
        self.understand(place)
        user, client_id, ip = (slots.get(kind, ABSENT) for kind in ENTITY_TYPES)
        entity_parts = parts(Entity((user, client_id, ip)))
        quota_limits = tuple(quota_limits)
        try:
            subject = entity(user=user, client_id=client_id, ip=ip)
        except QuotaValueError as error:
            self.lose(place, error.message, entity_parts)
            return
        reason = unwritable_entity(subject)
        if reason:
            self.lose(place, reason, entity_parts)
            return
        if not quota_limits:
            self.note(place, "no limits, so there is nothing to declare", entity_parts)
            return
        values: dict[Key, float] = {}
        lines: dict[Key, int] = {}
        for limit in quota_limits:
            try:
                key, value = _check_limit(subject, limit)
                if key in values:
                    raise QuotaValueError("given twice")  # noqa: TRY301 - one way out of the loop
            except QuotaValueError as error:
                self._losses.append(
                    ImportRemark(
                        path=place.path,
                        line=limit.line,
                        text=error.message,
                        about=entity_parts,
                        key=limit.key,
                        value=limit.text,
                    )
                )
            else:
                values[key], lines[key] = value, limit.line
        if values:
            self._declare(subject, limits_of(values), place, _lines_of(lines))

    def _declare(self, subject: Entity, limits: Limits, place: Place, lines: Lines) -> None:
        first = self._found.get(subject)
        if first is None:
            self._found[subject] = Declaration(
                document="",  # named with all others at the end
                entity=subject,
                limits=limits,
                path=place.path,
                line=place.line,
                lines=lines,
            )
        elif first.limits != limits:
            elsewhere = f"{first.path}:{first.line}" if first.line else first.path
            self.lose(
                place,
                f"other limits for the same entity are at {elsewhere}; those are used",
                parts(subject),
            )


def _check_limit(subject: Entity, limit: ImportedLimit) -> tuple[Key, float]:
    if not limit.is_known:
        raise QuotaValueError("the tool has no such limit")
    try:
        key = Key(limit.key)
    except ValueError:
        raise QuotaValueError(NO_KEY) from None
    value = check_value(key, limit.value())
    reason = unwritable_value(subject, key, value)
    if reason:
        raise QuotaValueError(reason)
    return key, value


def _lines_of(lines: dict[Key, int]) -> Lines:
    columns = list(NO_LINES)
    for key, line in lines.items():
        columns[COLUMN_OF[key]] = line
    return key_columns(columns)


def _place(remark: ImportRemark) -> tuple[str, int, str, str]:
    return remark.path, remark.line, remark.key, remark.text
