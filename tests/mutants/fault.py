"""One planted fault, as a value."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One line of the code made wrong.

    Attributes:
        what: The mistake in words, as a reviewer would put it.
        file: Path from the root of the project.
        old: Text that stands exactly once in the file.
        new: What stands there instead; it must still compile and import.
        tests: Arguments for pytest: files or single tests, of which at least one must turn red.
    """

    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
