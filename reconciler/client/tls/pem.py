"""PEM text to normalized blocks, and DER to PEM. No files, no SSL context.

Kafka reads PEM with a lenient pattern (``DefaultSslEngineFactory.PemParser``, 4.3): a block may be on one
line with blanks instead of line ends, and text between blocks is ignored. OpenSSL is strict, so blocks are
formatted again here.
"""

import base64
import re
from bisect import bisect_left
from typing import Final

import msgspec

_BEGIN: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)(?=-----)")
_END: Final = re.compile(r"-----END ([A-Z0-9 ]+)(?=-----)")
_DASHES: Final = "-----"
_HEADED: Final = re.compile(r"\s*[A-Za-z-]+:")


class PemBlock(msgspec.Struct, frozen=True, kw_only=True):
    """One PEM block; the body may be a private key, so it is not in ``repr``."""

    label: str
    text: str

    def __repr__(self) -> str:
        return f"Block(label={self.label!r})"

    @property
    def is_certificate(self) -> bool:
        """Whether it is a certificate."""
        return self.label.endswith("CERTIFICATE")

    @property
    def is_key(self) -> bool:
        """Whether it is a private key."""
        return self.label.endswith("PRIVATE KEY")

    @property
    def is_encrypted(self) -> bool:
        """Whether a password is needed to read the key (PKCS#8 or the older headers of OpenSSL)."""
        return self.label.startswith("ENCRYPTED") or "Proc-Type: 4,ENCRYPTED" in self.text


def blocks(text: str) -> tuple[PemBlock, ...]:
    """Return every block of ``text`` in order."""
    ends: dict[str, list[int]] = {}
    for end in _END.finditer(text):
        ends.setdefault(end[1], []).append(end.start())
    pem_blocks: list[PemBlock] = []
    after = 0
    for begin in _BEGIN.finditer(text):
        label, start = begin[1], begin.end() + len(_DASHES)
        places = ends.get(label, [])
        at = bisect_left(places, start)
        if begin.start() < after or at == len(places):
            continue
        pem_blocks.append(PemBlock(label=label, text=_tidy(label, text[start : places[at]])))
        after = places[at] + len(f"-----END {label}-----")
    return tuple(pem_blocks)


def certificates(text: str) -> str:
    """Return the certificates of ``text``, one after the other; "" if there is none."""
    return "".join(block.text for block in blocks(text) if block.is_certificate)


def private_keys(text: str) -> tuple[PemBlock, ...]:
    """Return the private keys of ``text``."""
    return tuple(block for block in blocks(text) if block.is_key)


def from_der(label: str, der: bytes) -> str:
    """Return a PEM block of DER bytes."""
    return _tidy(label, base64.b64encode(der).decode("ascii"))


def _tidy(label: str, body: str) -> str:
    if _HEADED.match(body):  # old encrypted keys have headers that must stay on their own lines
        tidy_body = "\n".join(line.strip() for line in body.strip().splitlines())
        return f"-----BEGIN {label}-----\n{tidy_body}\n-----END {label}-----\n"
    letters = "".join(body.split())
    lines = "\n".join(letters[at : at + 64] for at in range(0, len(letters), 64))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"
