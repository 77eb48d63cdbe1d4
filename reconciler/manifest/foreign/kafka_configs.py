"""The output of ``kafka-configs --describe``, line by line; a file of ``--alter`` commands is read as a script.

Source: ConfigCommand of apache/kafka: describeQuotaConfigs of 2024-10-25, the form of 0.10 to 2.5 ("Configs for default
client-id are a=1,b=2"), and that of 0.9 ("Configs for clients:mobile are a=1"). A describe is strict and shows one form
of entity, so several outputs can be passed in.

Names are printed unescaped between single quotes, so a name with a quote can make a line ambiguous.
Then the reading without a quote in a name is used, if there is one, with a note that the line has another
reading; else the line is listed.
"""

import re
from collections.abc import Iterator
from typing import Final

from reconciler.manifest.foreign.collector import FileLine, Files, ImportCollector, ImportedLimit
from reconciler.manifest.foreign.kafka_configs_script import is_script, read_script
from reconciler.quota.entity import ABSENT, DEFAULT, ENTITY_TYPES, Entity, Slot, parts

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
