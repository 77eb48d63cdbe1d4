"""The two modes of a generator: ``--write`` writes its files into the checkout, ``--check`` compares them."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

ROOT: Final = Path(__file__).resolve().parents[1]
"""The checkout."""

Texts: TypeAlias = Mapping[str, str]
"""Path of a generated file, relative to the checkout -> its text."""


def stale(root: Path, texts: Texts) -> list[str]:
    """Return the generated files that are missing in a checkout or differ."""
    return [
        name
        for name, text in texts.items()
        if not (root / name).is_file() or (root / name).read_text(encoding="utf-8") != text
    ]


def main(arguments: Sequence[str], root: Path, generate: Callable[[], Texts]) -> int:
    """Run a generator; return the exit code.

    Args:
        arguments: ``--write`` or ``--check``.
        root: The checkout.
        generate: Returns the texts.
    """
    match list(arguments):
        case ["--write"]:
            for name, text in generate().items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
            return 0
        case ["--check"]:
            names = stale(root, generate())
            for name in names:
                sys.stderr.write(f"{name} is out of date; run make generate\n")
            return 1 if names else 0
        case _:
            sys.stderr.write("usage: --write or --check\n")
            return 2
