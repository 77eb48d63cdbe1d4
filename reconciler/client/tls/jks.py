"""Reader of Java's own key store format (JKS). Bytes in, DER out; no files and no dependencies.

Layout (``sun.security.provider.JavaKeyStore``, JDK 17), big-endian: magic ``FEEDFEED``, version 1 or 2, count of entries;
an entry has a tag (1 private key, 2 trusted certificate), an alias (modified UTF-8, int16 length), a date
(int64) and then either a protected key and its chain or one certificate; in version 2 each certificate follows its
type. The end is a SHA-1 over the password in UTF-16BE, the words ``Mighty Aphrodite`` and everything
before. Keys are protected by ``sun.security.provider.KeyProtector``: 20 bytes of salt, the key XORed with a
chain of SHA-1(password + previous), 20 bytes of SHA-1(password + key).
"""

import hashlib
import hmac
from typing import Final

from msgspec import Struct

from reconciler.base.secret import Secret

MAGIC: Final = b"\xfe\xed\xfe\xed"
_KEY_ENTRY: Final = 1
_TRUSTED_ENTRY: Final = 2
_DIGEST_BYTES: Final = 20
_WHITENER: Final = b"Mighty Aphrodite"
_SUN_OID: Final = bytes.fromhex("060a2b060104012a02110101")
"""1.3.6.1.4.1.42.2.17.1.1, Sun's key protector, as a DER object identifier."""


class JksError(ValueError):
    """The bytes are not a valid key store, or the password is wrong."""


class KeyEntry(Struct, frozen=True, kw_only=True):
    """A private key, still protected, and its chain of DER certificates, leaf first."""

    alias: str
    protected: bytes
    chain: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"KeyEntry(alias={self.alias!r})"


class KeyStore(Struct, frozen=True, kw_only=True):
    """The entries of a file, in its order."""

    keys: tuple[KeyEntry, ...]
    trusted: tuple[bytes, ...]


class _Cursor:
    """Reads forward and raises at the end."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def take(self, size: int) -> bytes:
        if size < 0 or size > len(self._content) - self._at:
            raise JksError("the key store is truncated")
        self._at += size
        return self._content[self._at - size : self._at]

    def int32(self) -> int:
        return int.from_bytes(self.take(4), signed=True)

    def text(self) -> str:
        return self.take(int.from_bytes(self.take(2))).decode("utf-8", "replace")

    @property
    def ended(self) -> bool:
        return self._at == len(self._content)


def load(content: bytes, password: Secret | None) -> KeyStore:
    """Parse a key store.

    Args:
        password: Of the store; None skips the integrity check, as Java does for trust stores.

    Raises:
        JksError: The content is no JKS, is truncated, or the password is wrong.
    """
    if not content.startswith(MAGIC) or len(content) < 12 + _DIGEST_BYTES:
        raise JksError("the file is not a JKS key store")
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if password is not None:
        expected = hashlib.sha1(_utf16(password) + _WHITENER + body)  # noqa: S324 - the format's own
        if not hmac.compare_digest(expected.digest(), digest):
            raise JksError("the store password is wrong, or the file was changed")
    cursor = _Cursor(body[4:])
    version = cursor.int32()
    if version not in {1, 2}:
        raise JksError(f"JKS version {version} is unknown")
    keys: list[KeyEntry] = []
    trusted: list[bytes] = []
    for _ in range(cursor.int32()):
        tag, alias = cursor.int32(), cursor.text()
        _ = cursor.take(8)
        if tag == _KEY_ENTRY:
            protected = cursor.take(cursor.int32())
            chain = tuple(_certificate(cursor, version) for _ in range(cursor.int32()))
            keys.append(KeyEntry(alias=alias, protected=protected, chain=chain))
        elif tag == _TRUSTED_ENTRY:
            trusted.append(_certificate(cursor, version))
        else:
            raise JksError(f"the entry {alias!r} has the unknown tag {tag}")
    if not cursor.ended:
        raise JksError("bytes are left over after the last entry")
    return KeyStore(keys=tuple(keys), trusted=tuple(trusted))


def unprotect(entry: KeyEntry, password: Secret) -> bytes:
    """Return the PKCS#8 bytes of a private key.

    Raises:
        JksError: The key has another protection, or the key password is wrong.
    """
    wrapped = _wrapped_bytes(entry.protected)
    salt, secret = wrapped[:_DIGEST_BYTES], _utf16(password)
    mixed, check = wrapped[_DIGEST_BYTES:-_DIGEST_BYTES], wrapped[-_DIGEST_BYTES:]
    stream = bytearray()
    block = salt
    while len(stream) < len(mixed):
        block = hashlib.sha1(secret + block).digest()  # noqa: S324 - the format's own
        stream += block
    plain = bytes(octet ^ mask for octet, mask in zip(mixed, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + plain).digest(), check):  # noqa: S324 - as above
        raise JksError("the key password is wrong")
    return plain


def _certificate(cursor: _Cursor, version: int) -> bytes:
    kind = cursor.text() if version == 2 else "X.509"
    if kind not in {"X.509", "X509"}:
        raise JksError(f"a certificate of the type {kind!r} cannot be used")
    return cursor.take(cursor.int32())


def _wrapped_bytes(protected: bytes) -> bytes:
    """Return the octet string of an EncryptedPrivateKeyInfo of Sun's key protector."""
    outer, _ = _der(protected, 0x30)
    algorithm, remainder = _der(outer, 0x30)
    if not algorithm.startswith(_SUN_OID):
        raise JksError("the private key is not protected the way JKS does it")
    wrapped, _ = _der(remainder, 0x04)
    if len(wrapped) <= 2 * _DIGEST_BYTES:
        raise JksError("the private key is cut off")
    return wrapped


def _der(content: bytes, tag: int) -> tuple[bytes, bytes]:
    """Return the value of the first DER element, and the bytes after it."""
    if len(content) < 2 or content[0] != tag:
        raise JksError("the private key is not DER")
    size, start = content[1], 2
    if size & 0x80:
        count = size & 0x7F
        if not 1 <= count <= 4:
            raise JksError("the private key is not DER")
        size, start = int.from_bytes(content[2 : 2 + count]), 2 + count
    if size > len(content) - start:
        raise JksError("the private key is cut off")
    return content[start : start + size], content[start + size :]


def _utf16(password: Secret) -> bytes:
    return password.reveal().encode("utf-16-be", "surrogatepass")
