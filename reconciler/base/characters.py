"""Which characters may be shown as they are: the rule for every text that leaves the program. No text is changed here.

A character is shown if a reader sees it where it stands. Controls, format characters and unassigned ones are not,
letters of right-to-left scripts reorder their neighbours, and default-ignorable characters take no room on a screen:
``admin`` and ``admin`` with a variation selector look the same.
"""

import re
import unicodedata
from functools import lru_cache
from typing import Final

UNICODE_VERSION: Final = "16.0.0"
"""The version of ``DerivedCoreProperties.txt`` whose Default_Ignorable_Code_Point is :data:`DEFAULT_IGNORABLE`."""

DEFAULT_IGNORABLE: Final = (
    (0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip
"""Ranges of code points, both ends included; 4,174 in all."""

BLANKS: Final = frozenset("\u2800")
"""Characters that are printable by their class and empty on a screen: BRAILLE PATTERN BLANK."""

# Letters of right-to-left scripts and Arabic numbers reorder what stands beside them, so that
# "10 -> 20" could be read as "20 -> 10".
_REORDERING: Final = frozenset({"R", "AL", "AN"})

_IGNORABLE: Final = re.compile(
    "[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in DEFAULT_IGNORABLE) + "]"
)


@lru_cache(maxsize=4096)
def is_shown(character: str) -> bool:
    """Whether a character can be printed as it is: visible, and without effect on its neighbours."""
    return (
        character.isprintable()
        and unicodedata.bidirectional(character) not in _REORDERING
        and _IGNORABLE.match(character) is None
        and character not in BLANKS
    )


def escape(character: str) -> str:
    r"""``\uXXXX``, or ``\UXXXXXXXX`` above U+FFFF: the same in our text, in JSON up to U+FFFF, and in YAML."""
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
