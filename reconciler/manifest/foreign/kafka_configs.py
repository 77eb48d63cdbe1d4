"""The output of ``kafka-configs --describe``, line by line, and shell scripts of ``kafka-configs --alter`` lines.

Words of a script are read; nothing is executed or expanded.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from reconciler.errors import ManifestErrors, Problem
from reconciler.manifest.foreign.collector import FileLine, Files, ImportCollector, ImportedLimit
from reconciler.quota.entity import ABSENT, DEFAULT, ENTITY_TYPES, Entity, Slot, parts

_PROGRAMS: Final = frozenset({"kafka-configs", "kafka-configs.sh"})
_RUNNERS: Final = frozenset({"sudo", "env", "time", "kubectl", "oc", "docker", "podman"})
_SETTING: Final = re.compile(r"set(?: [-+][a-z]+(?: pipefail)?)+")
_PIECE: Final = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|[^'\"\\]+")
_COMMENT: Final = re.compile(r"(?<!\S)#")
_EXPANDED: Final = re.compile(r"[$`;|&<>(){}*?\[\]~!]")
_EXPANDED_IN_QUOTES: Final = re.compile(r"[$`]")
_ESCAPED: Final = re.compile(r"\\.")
_CONFIG: Final = re.compile(r"([^=,\[\]]+)=(\[[^\]]*\]|[^,\[\]]*)(?:,|\Z)")
_CREDENTIAL: Final = "SCRAM-"
_DESCRIBED: Final = ("Quota configs for ", "Configs for ")

_TYPES: Final = {"users": "user", "clients": "client-id", "ips": "ip"}
_WITHOUT_QUOTAS: Final = frozenset(
    {"topics", "brokers", "broker-loggers", "client-metrics", "groups"}
    | {"--topic", "--broker", "--broker-defaults", "--broker-logger", "--client-metrics", "--group"}
)
_NAMED: Final = {"--client": "clients", "--user": "users", "--ip": "ips"}
_DEFAULTS: Final = {
    "--client-defaults": "clients",
    "--user-defaults": "users",
    "--ip-defaults": "ips",
}
"""Options that have type and name in one, in the order in which ConfigCommand reads them."""
_FLAGS: Final = frozenset(
    {"--alter", "--describe", "--all", "--force", "--entity-default", "--broker-defaults"}
    | _DEFAULTS.keys()
)


class _Line(NamedTuple):
    place: FileLine
    text: str

    def refused(self, reason: str) -> ManifestErrors:
        return ManifestErrors([Problem(self.place.path, self.place.line, 0, reason)])


def is_script(text: str) -> bool:
    """Whether a text has a command that alters. A describe has none, but may have a name that looks like one."""
    words = text.split()
    return (
        "--alter" in words
        and any(map(_is_program, words))
        and not any(line.startswith(_DESCRIBED) for line in text.splitlines())
    )


def _is_program(word: str) -> bool:
    return word.rpartition("/")[2] in _PROGRAMS


def read_script(path: str, text: str, collector: ImportCollector) -> None:
    """Read the limits that a script leaves behind."""
    limits: dict[Entity, dict[str, ImportedLimit]] = {}
    places: dict[Entity, FileLine] = {}
    for line in _lines(path, text):
        with collector.entry():
            options = _options(line)
            subject = _entity(line, options)
            if subject is None:
                continue
            collector.understand(line.place)
            added = [config for config in options if config[0] == "--add-config"]
            configs = [pair for _, text in added for pair in _configs(line, text)]
            values = limits.setdefault(subject, {})
            _ = places.setdefault(subject, line.place)
            for key in _deleted(options):
                if values.pop(key, None) is None:
                    reason = f"it removes {key}, which no line before it sets"
                    collector.lose(line.place, reason, parts(subject))
            values |= {
                key: ImportedLimit(key=key, text=value, line=line.place.line)
                for key, value in configs
            }
    for subject, values in limits.items():
        if values:
            slots = dict(zip(ENTITY_TYPES, subject, strict=True))
            collector.add(places[subject], values.values(), slots)


def _lines(path: str, text: str) -> Iterator[_Line]:
    """Yield lines; one that ends in a backslash goes on in the next."""
    begin, current = 1, ""
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        current += line.removesuffix("\r")
        if (len(current) - len(current.rstrip("\\"))) % 2:
            current = current[:-1]
            continue
        yield _Line(FileLine(path, begin), current)
        begin, current = number + 1, ""
    yield _Line(FileLine(path, begin), current)


def _options(line: _Line) -> list[tuple[str, str]]:
    """Return the options of a command that alters, with their values, in their order; none for another line."""
    words = _words(line)
    if not words:
        return []
    at = next((at for at, word in enumerate(words) if _is_program(word)), None)
    if at is None or (at > 0 and words[0].rpartition("/")[2] not in _RUNNERS):
        raise line.refused("not a kafka-configs command; nothing is executed")
    options: list[tuple[str, str]] = []
    remaining_words = iter(words[at + 1 :])
    for word in remaining_words:
        name, equals, value = word.partition("=")
        if not name.startswith("--"):
            raise line.refused("a word is neither an option nor its value")
        if not equals and name not in _FLAGS:
            value = next(remaining_words, "")
        if name == "--add-config-file":
            raise line.refused(f"{name} names another file, which is not read")
        options.append((name, value))
    return options if ("--alter", "") in options else []


def _words(line: _Line) -> list[str]:
    """Return the words of a command; none for a comment and a setting of the shell."""
    at, text = 0, ""
    while at < len(line.text):
        piece = _PIECE.match(line.text, at)
        if piece is None:
            raise line.refused("a quote does not end on its line")
        is_bare = piece[0][0] not in "'\"\\"
        comment = _COMMENT.search(line.text, at, piece.end()) if is_bare else None
        end = piece.end() if comment is None else comment.start()
        sign = None
        if is_bare:
            sign = _EXPANDED.search(line.text, at, end)
        elif piece[0].startswith('"'):
            sign = _EXPANDED_IN_QUOTES.search(_ESCAPED.sub("", piece[0]))
        if sign:
            raise line.refused(f"{sign[0]} needs a shell, and nothing is executed")
        text += line.text[at:end]
        if comment:
            break
        at = end
    return [] if _SETTING.fullmatch(text.strip()) else shlex.split(text)


def _entity(line: _Line, options: Sequence[tuple[str, str]]) -> Entity | None:
    """Return the entity; ``None`` if nothing is altered, or a type that has no client quotas."""
    types = [text for name, text in options if name == "--entity-type"]
    names = [
        text if name == "--entity-name" else ""
        for name, text in options
        if name in {"--entity-name", "--entity-default"}
    ]
    for option, kind in (*_NAMED.items(), *_DEFAULTS.items()):
        option_values = [text for name, text in options if name == option]
        types += [kind] * len(option_values)
        names += option_values
    if not options or _WITHOUT_QUOTAS & {*types, *(name for name, _ in options)}:
        return None
    slots: dict[str, Slot] = {
        _TYPES[kind]: name or DEFAULT
        for kind, name in zip(types, names, strict=False)
        if kind in _TYPES
    }
    if not slots or len(slots) != max(len(types), len(names)):
        raise line.refused(
            "entity types and names are not one name for each of users, clients, ips"
        )
    user, client_id, ip = (slots.get(kind, ABSENT) for kind in ENTITY_TYPES)
    return Entity((user, client_id, ip))


def _configs(line: _Line, text: str) -> Iterator[tuple[str, str]]:
    """Yield the values of ``--add-config`` that are no credentials."""
    at = 0
    while at < len(text):
        match = _CONFIG.match(text, at)
        if match is None:
            raise line.refused("--add-config is not a list of key=value")
        key = match[1].strip()
        if not key.startswith(_CREDENTIAL):
            yield key, match[2].strip()
        at = match.end()


def _deleted(options: Sequence[tuple[str, str]]) -> Iterator[str]:
    for name, text in options:
        if name == "--delete-config":
            keys = map(str.strip, text.split(","))
            yield from (key for key in keys if not key.startswith(_CREDENTIAL))


_LINE: Final = re.compile(r"(?:Quota configs|Configs) for (.*)")
_SCRAM: Final = ("SCRAM credential configs for ", "Error retrieving SCRAM ")
_LIMIT: Final = r"[^=,\s]+=(?:-?[0-9]+(?:\.[0-9]+)?(?:E-?[0-9]+)?|NaN|-?Infinity)"
_LIMITS: Final = re.compile(rf"(?:{_LIMIT}(?:, ?{_LIMIT})*)?")
_COMMA: Final = re.compile(", ?")
_NOISE: Final = ("Defaulted container ", "OpenJDK 64-Bit Server VM warning: ")
"""Lines of kubectl and of the Java VM begin so."""
_ARE: Final = re.compile(r" are(?: |\Z)")
_USER: Final = "user-principal"
_CLIENT: Final = "client-id"
_IP: Final = "ip"
_CLIENTS_OF_0_9: Final = "clients:"
_Slots = tuple[Slot, Slot, Slot]


def read(files: Files, collector: ImportCollector) -> None:
    """Read the limits of every line."""
    for path, text in files:
        if is_script(text):
            read_script(path, text, collector)
            continue
        for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
            _read_line(FileLine(path, number), line.removesuffix("\r"), collector)


def _read_line(place: FileLine, line: str, collector: ImportCollector) -> None:
    match = _LINE.fullmatch(line)
    if match is None:
        if line.startswith(_SCRAM):
            collector.understand(place)
        elif line.strip() and not line.startswith(_NOISE):
            # The line itself is not repeated: it may contain anything, credentials too.
            collector.lose(
                place, "not a line about quotas; a name with a line break looks like this, too"
            )
        return
    readings = list(_readings(match.group(1)))
    pairs = len(readings)
    unquoted = [
        candidate for candidate in readings if not any("'" in slot for slot in candidate[0] if slot)
    ]
    if len(readings) > 1 and unquoted:
        readings = unquoted
    if len(readings) != 1:
        collector.lose(
            place,
            "a quote inside a name makes this line readable in several ways"
            if readings
            else "entity or limits are not written as kafka-configs writes them",
        )
        return
    slots, limits = readings[0]
    if pairs > 1:
        collector.note(
            place,
            "read as a pair of user and client-id; one user with this whole text as its name is printed the same way."
            " The live quotas show which it is: kquota describe",
            parts(Entity(slots)),
        )
    quota_limits = [
        ImportedLimit(key=key, text=value, line=place.line, live=True)
        for key, _, value in (
            assignment.partition("=") for assignment in _COMMA.split(limits) if assignment
        )
    ]
    collector.add(place, quota_limits, dict(zip(ENTITY_TYPES, slots, strict=True)))


def _readings(text: str) -> Iterator[tuple[_Slots, str]]:
    """Yield every reading of the text after "configs for": slots and limits."""
    for at in _ARE.finditer(text):
        limits = text[at.end() :]
        if _LIMITS.fullmatch(limits):
            for slots in _entities(text[: at.start()]):
                yield slots, limits


def _entities(head: str) -> Iterator[_Slots]:
    if head.startswith(_CLIENTS_OF_0_9) and len(head) > len(_CLIENTS_OF_0_9):
        yield ABSENT, head.removeprefix(_CLIENTS_OF_0_9), ABSENT
    if (user := _slot(_USER, head)) is not ABSENT:
        yield user, ABSENT, ABSENT
    if (client_id := _slot(_CLIENT, head)) is not ABSENT:
        yield ABSENT, client_id, ABSENT
    if (ip := _slot(_IP, head)) is not ABSENT:
        yield ABSENT, ABSENT, ip
    for comma in re.finditer(", ", head):
        user, client_id = (_slot(_USER, head[: comma.start()]), _slot(_CLIENT, head[comma.end() :]))
        if user is not ABSENT and client_id is not ABSENT:
            yield user, client_id, ABSENT


def _slot(words: str, text: str) -> Slot:
    """Return one slot; ``ABSENT`` if the text is not one."""
    if text in {f"the default {words}", f"default {words}"}:
        return DEFAULT
    before = f"{words} '"
    is_named = len(text) > len(before) and text.startswith(before) and text.endswith("'")
    return text[len(before) : -1] if is_named else ABSENT
