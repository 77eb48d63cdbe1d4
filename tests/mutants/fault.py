"""One planted fault, as a value."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One changed line of the code.

    Attributes:
        what: The mistake as a sentence.
        file: Path from the root of the project.
        old: Text that occurs exactly once in the file.
        new: Its replacement; the module must still compile and import.
        tests: Arguments for pytest: files or single tests, of which at least one must fail.
    """

    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
