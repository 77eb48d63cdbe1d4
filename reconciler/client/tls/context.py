"""Builds an ``ssl.SSLContext`` from TLS settings. Reads the key material; opens no connection.

Verification is on unless a setting explicitly turns it off. An empty ``ssl.endpoint.identification.algorithm`` turns
off only the comparison of the host name (KIP-294); the chain is still verified.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from reconciler.base.secret import Secret
from reconciler.client.configuration.settings import ClientSettings
from reconciler.client.tls import key_stores
from reconciler.client.tls.key_stores import Identity, StoreConfig
from reconciler.errors import ConfigError

_VERSIONS: Final = {"tlsv1.2": ssl.TLSVersion.TLSv1_2, "tlsv1.3": ssl.TLSVersion.TLSv1_3}
_OPENSSL_CIPHERS: Final = {"AES_128_": "AES128-", "AES_256_": "AES256-"}


class Tls(Struct, frozen=True, kw_only=True):
    """TLS configuration."""

    trusted: str | None = None  # PEM certificates of the authorities; None = those of the machine
    identity: Identity | None = None  # the client certificate; None without mutual TLS
    check_name: bool = True  # compare the certificate with the dialed host name
    # Verify the chain; False only by `enable.ssl.certificate.verification=false`.
    verify: bool = True
    lowest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2  # oldest protocol version
    highest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3  # newest protocol version
    ciphers: str = ""  # OpenSSL's names for TLS 1.2, separated by `:`; "" = OpenSSL's choice

    def context(self) -> ssl.SSLContext:
        """Return a new client context.

        Raises:
            ConfigError: OpenSSL refuses the certificates, the key, its password or the ciphers.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.check_name and self.verify
        context.verify_mode = ssl.CERT_REQUIRED if self.verify else ssl.CERT_NONE
        context.minimum_version, context.maximum_version = self.lowest, self.highest
        if self.ciphers:
            with _refusal("ssl.cipher.suites", "OpenSSL supports none of these ciphers"):
                context.set_ciphers(self.ciphers)
        if self.trusted is None:
            context.load_default_certs()
        else:
            with _refusal("ssl.truststore.certificates", "a trusted certificate cannot be read"):
                context.load_verify_locations(cadata=self.trusted)
        if self.identity is not None:
            _load_identity(context, self.identity)
        return context


def from_settings(settings: ClientSettings) -> Tls:
    """Return the TLS configuration of the ``ssl.*`` settings; reads the files.

    Raises:
        ConfigError: A file cannot be read, or settings contradict each other; the message has key and file.
    """
    lowest, highest = _versions(settings)
    tls = Tls(
        trusted=_trusted_certificates(settings),
        identity=_identity(settings),
        check_name=settings.lowered("ssl.endpoint.identification.algorithm", "https") == "https",
        verify=settings.switch("enable.ssl.certificate.verification", default=True),
        lowest=lowest,
        highest=highest,
        ciphers=_ciphers(settings.items("ssl.cipher.suites")),
    )
    try:
        _ = tls.context()
    except ConfigError as error:
        raise ConfigError(
            error.message, key=error.key, location=settings.location, hint=error.hint
        ) from None
    return tls


def _trusted_certificates(settings: ClientSettings) -> str | None:
    inline, location = "ssl.truststore.certificates", "ssl.truststore.location"
    given_keys = [key for key in (inline, location, "ssl.ca.location") if settings.text(key)]
    if len(given_keys) > 1:
        raise settings.error(given_keys[1], f"cannot be combined with {given_keys[0]}")
    if not given_keys:
        return None
    if given_keys[0] == inline:
        certificates_pem = key_stores.certificates_of(settings.text(inline) or "")
        if not certificates_pem:
            raise settings.error(inline, "contains no PEM certificate")
        return certificates_pem
    path = Path(settings.text(given_keys[0]) or "")
    folder_files = settings.files.list_folder(path) if given_keys[0] == "ssl.ca.location" else None
    if folder_files is not None:
        parts = [_content(settings, given_keys[0], file) for file in folder_files]
        return key_stores.certificates_of(
            "\n".join(part.decode("utf-8", "replace") for part in parts)
        )
    password = settings.secret("ssl.truststore.password")
    return key_stores.trusted_certificates(
        _store(settings, given_keys[0], "ssl.truststore", password)
    )


def _identity(settings: ClientSettings) -> Identity | None:
    key_password = settings.secret("ssl.key.password")
    store_key = "ssl.keystore.location"
    if settings.text(store_key):
        for conflicting_key in (
            "ssl.keystore.key",
            "ssl.keystore.certificate.chain",
            "ssl.key.location",
        ):
            if conflicting_key in settings:
                raise settings.error(conflicting_key, f"cannot be combined with {store_key}")
        password = settings.secret("ssl.keystore.password")
        return key_stores.identity(
            _store(settings, store_key, "ssl.keystore", password), key_password
        )
    chain, chain_key = _either(
        settings, "ssl.keystore.certificate.chain", "ssl.certificate.location"
    )
    key, key_key = _either(settings, "ssl.keystore.key", "ssl.key.location")
    if chain is None and key is None:
        return None
    if chain is None or key is None:
        missing = "ssl.keystore.certificate.chain" if chain is None else "ssl.keystore.key"
        raise settings.error(
            missing, f"is missing beside {key_key if chain is None else chain_key}"
        )
    source = StoreConfig(
        content=b"",
        declared="PEM",
        password=None,
        location=settings.entries[key_key].location,
        key=key_key,
        password_key="ssl.key.password",  # noqa: S106 - the name of a key, not a password
    )
    return key_stores.pem_identity(chain, key, key_password, source)


def _either(settings: ClientSettings, inline: str, location: str) -> tuple[str | None, str]:
    """Return text given inline or in a file, and its key."""
    if settings.text(inline):
        if settings.text(location):
            raise settings.error(location, f"cannot be combined with {inline}")
        return settings.text(inline), inline
    path = settings.text(location)
    if not path:
        return None, location
    return _content(settings, location, Path(path)).decode("utf-8", "replace"), location


def _store(settings: ClientSettings, key: str, family: str, password: Secret | None) -> StoreConfig:
    path = Path(settings.text(key) or "")
    return StoreConfig(
        content=_content(settings, key, path),
        declared=settings.text(f"{family}.type"),
        password=password,
        location=str(path),
        key=key,
        password_key=f"{family}.password",
    )


def _content(settings: ClientSettings, key: str, path: Path) -> bytes:
    try:
        return settings.files.read(path)
    except ConfigError as error:
        raise settings.error(key, str(error)) from None


def _versions(settings: ClientSettings) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
    names = [name.lower() for name in settings.items("ssl.enabled.protocols")]
    if not names:
        only = settings.lowered("ssl.protocol", "tls")
        # Java's ssl.protocol is the newest version of the context, not the only one.
        return ssl.TLSVersion.TLSv1_2, _VERSIONS.get(only, ssl.TLSVersion.TLSv1_3)
    known_versions = [_VERSIONS[name] for name in names if name in _VERSIONS]
    if not known_versions:
        raise settings.error("ssl.enabled.protocols", "must include TLSv1.2 or TLSv1.3")
    return min(known_versions), max(known_versions)


def _ciphers(names: tuple[str, ...]) -> str:
    """Return OpenSSL's names of TLS 1.2 suites; those of TLS 1.3 are always on and omitted."""
    unknown_ciphers = []
    for name in names:
        if not name.startswith("TLS_"):
            unknown_ciphers.append(name)
        elif "_WITH_" in name:
            exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
            for java, openssl in _OPENSSL_CIPHERS.items():
                cipher = cipher.replace(java, openssl)
            if "CHACHA20" in cipher:
                cipher = cipher.removesuffix("_SHA256")
            cipher = cipher.replace("CBC_", "").replace("_", "-")
            unknown_ciphers.append(
                cipher if exchange == "RSA" else f"{exchange.replace('_', '-')}-{cipher}"
            )
    return ":".join(unknown_ciphers)


def _load_identity(context: ssl.SSLContext, identity: Identity) -> None:
    password = identity.password
    with (
        _refusal(
            "ssl.keystore.key", "the private key cannot be read, or is not that of the certificate"
        ),
        _private_file(identity.chain + identity.key.reveal()) as path,
    ):
        context.load_cert_chain(path, password=lambda: password.reveal() if password else "")


@contextmanager
def _refusal(key: str, message: str) -> Iterator[None]:
    """Convert OpenSSL's refusal to a configuration error; its text may contain secrets, so only its code is used."""
    try:
        yield
    except (ssl.SSLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", "")  # set_ciphers raises an SSLError without one
        raise ConfigError(f"{key}: {message}{f' ({reason})' if reason else ''}", key=key) from None


@contextmanager
def _private_file(text: str) -> Iterator[str]:
    """Return a path at which OpenSSL can read ``text``: memory on Linux, else a temporary file of mode 0600."""
    content = text.encode()
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
        try:
            with os.fdopen(os.dup(descriptor), "wb") as file:
                _ = file.write(content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    import tempfile

    descriptor, name = tempfile.mkstemp()
    try:
        with os.fdopen(descriptor, "wb") as file:
            _ = file.write(content)
        yield name
    finally:
        Path(name).unlink()
