"""Certificates for tests: an authority and certificates that it signs, valid or not. EC keys, PEM files.

Invalid certificates: another `Authority` is a wrong CA, `hosts` sets a wrong host name, `expired` makes a
certificate that expired yesterday.
"""

import datetime as dt
import ipaddress
import ssl
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.servers import jars

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
KEY_PASSWORD = "key-secret"  # noqa: S105 - not a secret
DAY = dt.timedelta(days=1)


def wall_clock() -> dt.datetime:
    """Return the real time, with which brokers compare certificates and tokens."""
    return dt.datetime.now(dt.UTC)  # noqa: TID251 - brokers have no fake clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A certificate with its key, in the formats that clients and brokers read.

    `key` is PKCS#8; `encrypted_key` the same encrypted with `KEY_PASSWORD`; `bundle` is key, certificate
    and CA in one file, the format of Kafka's PEM key stores.
    """

    subject: str
    certificate: Path
    key: Path
    encrypted_key: Path
    bundle: Path

    def pkcs12(self) -> Path:
        """Write a PKCS#12 key store encrypted with `KEY_PASSWORD`."""
        key = serialization.load_pem_private_key(self.key.read_bytes(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError("all keys here are EC keys")
        own, *issuers = x509.load_pem_x509_certificates(self.bundle.read_bytes())
        path = self.bundle.with_suffix(".p12")
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(
                b"own",
                key,
                own,
                issuers,
                serialization.BestAvailableEncryption(KEY_PASSWORD.encode()),
            )
        )
        return path

    def jks(self) -> Path:
        """Write a JKS key store encrypted with `KEY_PASSWORD`, by Java's `keytool`."""
        path = self.bundle.with_suffix(".jks")
        keytool = jars.program("keytool", "a Java runtime, version 17 or newer")
        subprocess.run(
            [
                keytool,
                "-importkeystore",
                "-noprompt",
                "-srckeystore",
                str(self.pkcs12()),
                "-srcstoretype",
                "PKCS12",
                "-srcstorepass",
                KEY_PASSWORD,
                "-destkeystore",
                str(path),
                "-deststoretype",
                "JKS",
                "-deststorepass",
                KEY_PASSWORD,
            ],
            check=True,
            capture_output=True,
        )
        return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """A certificate authority with its files in one folder."""

    folder: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def make(cls, folder: Path, *, name: str = "quota test CA") -> Self:
        """Create an authority, and write its certificate to `ca.pem`."""
        folder.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _common_name(name)
        signed = (
            _builder(subject, subject, key.public_key(), expired=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_key_usage(authority=True), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .sign(key, hashes.SHA256())
        )
        authority = cls(folder=folder, key=key, certificate=signed)
        authority.certificate_file.write_bytes(_pem(signed))
        return authority

    @property
    def certificate_file(self) -> Path:
        """The CA's certificate, which clients trust."""
        return self.folder / "ca.pem"

    def client_context(self, identity: Identity | None = None) -> ssl.SSLContext:
        """Return a Python TLS context that trusts this authority and presents the identity, if given."""
        context = ssl.create_default_context(cafile=str(self.certificate_file))
        if identity is not None:
            context.load_cert_chain(identity.certificate, identity.key)
        return context

    def server(
        self, name: str, *, hosts: Iterable[str] = LOCAL_HOSTS, expired: bool = False
    ) -> Identity:
        """Create a server identity for the given host names and addresses."""
        return self._sign(name, hosts=tuple(hosts), expired=expired, server=True)

    def client(
        self, name: str, *, expired: bool = False, organisation: str | None = None
    ) -> Identity:
        """Create a client identity; its principal on a broker is `User:CN=<name>`.

        Kubernetes uses the name as the user and the `organisation` as the user's group.
        """
        return self._sign(name, hosts=(), expired=expired, server=False, organisation=organisation)

    def _sign(
        self,
        name: str,
        *,
        hosts: tuple[str, ...],
        expired: bool,
        server: bool,
        organisation: str | None = None,
    ) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = (
            _builder(
                _subject(name, organisation),
                self.certificate.subject,
                key.public_key(),
                expired=expired,
            )
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(issuer, critical=False)
        )
        if hosts:
            names = x509.SubjectAlternativeName([_host(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return self._write(name, key, builder.sign(self.key, hashes.SHA256()))

    def _write(
        self, name: str, key: ec.EllipticCurvePrivateKey, signed: x509.Certificate
    ) -> Identity:
        paths = {
            "certificate": self.folder / f"{name}.pem",
            "key": self.folder / f"{name}-key.pem",
            "encrypted_key": self.folder / f"{name}-encrypted-key.pem",
            "bundle": self.folder / f"{name}-bundle.pem",
        }
        locked = serialization.BestAvailableEncryption(KEY_PASSWORD.encode())
        plain = _private(key, serialization.NoEncryption())
        paths["certificate"].write_bytes(_pem(signed))
        paths["key"].write_bytes(plain)
        paths["encrypted_key"].write_bytes(_private(key, locked))
        paths["bundle"].write_bytes(plain + _pem(signed) + _pem(self.certificate))
        return Identity(subject=f"CN={name}", **paths)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, expired: bool
) -> x509.CertificateBuilder:
    now = wall_clock()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 10 * DAY)
        .not_valid_after(now - DAY if expired else now + 10 * DAY)
    )


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _subject(name: str, organisation: str | None) -> x509.Name:
    if organisation is None:
        return _common_name(name)
    group = x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation)
    return x509.Name([group, *_common_name(name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private(
    key: ec.EllipticCurvePrivateKey, encryption: serialization.KeySerializationEncryption
) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
