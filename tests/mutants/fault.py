"""One planted fault, as a value."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One changed line of the code."""

    what: str  # the mistake as a sentence
    file: str  # path from the root of the project
    old: str  # text that occurs exactly once in the file
    new: str  # its replacement; the module must still compile and import
    # Arguments for pytest: files or single tests, of which at least one must fail.
    tests: tuple[str, ...]
