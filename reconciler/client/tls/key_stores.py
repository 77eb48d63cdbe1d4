"""Converts key and trust stores to PEM: from PEM, JKS (own reader) and PKCS#12 (extra ``keystores``).

The format is detected from the bytes, not from ``ssl.*.type``: since Java 9 a file named ``.jks`` is usually
PKCS#12, and Java reads either under either name.
"""

import base64
import re
from bisect import bisect_left
from typing import Final

from msgspec import Struct

from reconciler.base.installation import install_hint
from reconciler.base.secret import Secret
from reconciler.client.tls import jks
from reconciler.errors import ConfigError

_BEGIN: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)(?=-----)")
_END: Final = re.compile(r"-----END ([A-Z0-9 ]+)(?=-----)")
_DASHES: Final = "-----"
_HEADED: Final = re.compile(r"\s*[A-Za-z-]+:")


class PemBlock(Struct, frozen=True, kw_only=True):
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
    """Return every block of ``text`` in order.

    Kafka reads PEM with a lenient pattern (``DefaultSslEngineFactory.PemParser``, 4.3): a block may be on one line with
    blanks instead of line ends, and text between blocks is ignored. OpenSSL is strict, so blocks are formatted again.
    """
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


def certificates_of(text: str) -> str:
    """Return the certificates of ``text``, one after the other; "" if there is none."""
    return "".join(block.text for block in blocks(text) if block.is_certificate)


def private_keys(text: str) -> tuple[PemBlock, ...]:
    """Return the private keys of ``text``."""
    return tuple(block for block in blocks(text) if block.is_key)


def pem_of_der(label: str, der: bytes) -> str:
    """Return a PEM block of DER bytes."""
    return _tidy(label, base64.b64encode(der).decode("ascii"))


def _tidy(label: str, body: str) -> str:
    if _HEADED.match(body):  # old encrypted keys have headers that must stay on their own lines
        tidy_body = "\n".join(line.strip() for line in body.strip().splitlines())
        return f"-----BEGIN {label}-----\n{tidy_body}\n-----END {label}-----\n"
    letters = "".join(body.split())
    lines = "\n".join(letters[at : at + 64] for at in range(0, len(letters), 64))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"


_DER_SEQUENCE: Final = b"\x30"
_JAVA_TYPES: Final = frozenset({"JKS", "PKCS12"})


class Identity(Struct, frozen=True, kw_only=True):
    """A client certificate: a chain of PEM certificates, leaf first, and the private key as PEM."""

    chain: str
    key: Secret
    password: Secret | None = None


class StoreConfig(Struct, frozen=True, kw_only=True):
    """A configured store; ``key`` and ``password_key`` are the names of its settings, for messages."""

    content: bytes
    declared: str | None
    password: Secret | None
    location: str
    key: str
    password_key: str

    def __repr__(self) -> str:
        return f"Store(where={self.location!r})"

    @property
    def form(self) -> str:
        """``PEM``, ``JKS`` or ``PKCS12``.

        Raises:
            ConfigError: The bytes have another format, or not the configured one.
        """
        form = _form(self.content)
        if not form:
            raise self.error("is neither PEM, JKS nor PKCS#12")
        declared = (self.declared or "").upper()
        if declared and declared != form and not {declared, form} <= _JAVA_TYPES:
            raise self.error(f"is {form}, but its type is given as {self.declared}")
        return form

    def error(self, message: str, *, hint: str = "") -> ConfigError:
        """Return an error with the file and the setting."""
        return ConfigError(
            f"{self.key}: the file {message}", key=self.key, location=self.location, hint=hint
        )


def trusted_certificates(store: StoreConfig) -> str:
    """Return the trusted certificates of a store as PEM.

    Raises:
        ConfigError: The store cannot be read, the password is wrong, or it contains no certificate.
    """
    match store.form:
        case "PEM":
            certificates_pem = certificates_of(_ascii(store))
        case "JKS":
            ders = _jks(store).trusted
            certificates_pem = "".join(pem_of_der("CERTIFICATE", der) for der in ders)
        case _:
            certificates_pem = _pkcs12_certificates(store)
    if not certificates_pem:
        raise store.error("contains no trusted certificate")
    return certificates_pem


def identity(store: StoreConfig, key_password: Secret | None) -> Identity:
    """Return the private key of a store, with its chain.

    Args:
        store: With exactly one private key.
        key_password: ``ssl.key.password``; without it the store's password is tried, as in Java.

    Raises:
        ConfigError: As for :func:`trusted_certificates`, or there is not exactly one private key.
    """
    match store.form:
        case "PEM":
            return pem_identity(_ascii(store), _ascii(store), key_password, store)
        case "JKS":
            return _jks_identity(store, key_password)
        case _:
            return _pkcs12_identity(store, key_password)


def pem_identity(chain: str, key: str, password: Secret | None, source: StoreConfig) -> Identity:
    """Return an identity from PEM texts.

    Raises:
        ConfigError: A certificate or exactly one key is missing, or an encrypted key has no password.
    """
    certificates, keys = certificates_of(chain), private_keys(key)
    if not certificates:
        raise source.error("holds no certificate")
    if len(keys) != 1:
        raise source.error(f"holds {len(keys)} private keys; exactly one is needed")
    if keys[0].is_encrypted and not password:
        raise ConfigError(
            "ssl.key.password: is missing, but the private key is encrypted",
            key="ssl.key.password",
            location=source.location,
        )
    return Identity(
        chain=certificates,
        key=Secret(keys[0].text),
        password=password if keys[0].is_encrypted else None,
    )


def _form(content: bytes) -> str:
    if content.startswith(jks.MAGIC):
        return "JKS"
    if content.startswith(_DER_SEQUENCE):
        return "PKCS12"
    return "PEM" if b"-----BEGIN " in content else ""


def _ascii(store: StoreConfig) -> str:
    return store.content.decode("utf-8", "replace")


def _jks(store: StoreConfig) -> jks.KeyStore:
    try:
        return jks.load(store.content, store.password)
    except jks.JksError as error:
        raise store.error(f"cannot be read: {error}", hint=f"check {store.password_key}") from None


def _jks_identity(store: StoreConfig, key_password: Secret | None) -> Identity:
    entries = _jks(store).keys
    if len(entries) != 1:
        raise store.error(f"holds {len(entries)} private keys; exactly one is needed")
    password = key_password or store.password
    if password is None:
        raise store.error("needs a password", hint=f"set {store.password_key}")
    try:
        key = jks.unprotect(entries[0], password)
    except jks.JksError as error:
        raise store.error(f"cannot be read: {error}", hint="check ssl.key.password") from None
    chain = "".join(pem_of_der("CERTIFICATE", der) for der in entries[0].chain)
    return Identity(chain=chain, key=Secret(pem_of_der("PRIVATE KEY", key)))


def _pkcs12_certificates(store: StoreConfig) -> str:
    bundle = _pkcs12(store, store.password)
    return "".join(bundle.certificates)


def _pkcs12_identity(store: StoreConfig, key_password: Secret | None) -> Identity:
    bundle = _pkcs12(store, store.password or key_password)
    if bundle.key is None or not bundle.chain:
        raise store.error("holds no private key with a certificate")
    return Identity(chain=bundle.chain, key=bundle.key)


class _Bundle(Struct, frozen=True, kw_only=True):
    key: Secret | None
    chain: str
    certificates: tuple[str, ...]


def _pkcs12(store: StoreConfig, password: Secret | None) -> _Bundle:
    """Load a PKCS#12 file. Java marks trusted certificates by an attribute; here all of them are used."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise store.error(
            "is PKCS#12, which needs the extra 'keystores'",
            hint=f"{install_hint('keystores')}; or convert the store to PEM with openssl pkcs12",
        ) from None
    secret = None if password is None else password.reveal().encode()
    try:
        loaded = pkcs12.load_pkcs12(store.content, secret)
    except ValueError:
        raise store.error(
            "cannot be read: the password is wrong or the file is damaged",
            hint=f"check {store.password_key}",
        ) from None
    pem = serialization.Encoding.PEM
    other_certificates = tuple(
        item.certificate.public_bytes(pem).decode("ascii") for item in loaded.additional_certs
    )
    leaf = "" if loaded.cert is None else loaded.cert.certificate.public_bytes(pem).decode("ascii")
    key = None
    if loaded.key is not None:
        form, encryption = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        key = Secret(loaded.key.private_bytes(pem, form, encryption).decode("ascii"))
    chain = leaf + "".join(other_certificates) if leaf else ""
    return _Bundle(
        key=key, chain=chain, certificates=(*((leaf,) if leaf else ()), *other_certificates)
    )
