"""One planted fault, as a value, and the file of all of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One changed place of the code."""

    what: str  # the mistake as a sentence
    file: str  # path from the root of the project
    old: str  # text that occurs exactly once in the file
    new: str  # its replacement; the module must still compile and import
    # Arguments for pytest: files or single tests, of which at least one must fail.
    tests: tuple[str, ...]


def read_faults(path: Path) -> Iterator[Fault]:
    """The faults of a file, whose first lines describe its form."""
    _, *sections = path.read_text(encoding="utf-8").split("\n== ")
    for section in sections:
        file, *lines = section.removesuffix("\n").split("\n")
        tests, at = tuple[str, ...](), 0
        while at < len(lines):
            mark, text = lines[at][:1], lines[at][2:]
            at += 1
            if mark == "=":
                tests = tuple(f"tests/{name}" for name in text.split())
                continue
            sides: dict[str, list[str]] = {"-": [], "+": []}
            while at < len(lines) and lines[at][:1] in sides:
                sides[lines[at][0]].append(lines[at][1:])
                at += 1
            old, new = ("\n".join(side) for side in sides.values())
            yield Fault(what=text, file=f"reconciler/{file}", old=old, new=new, tests=tests)
