"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677) as in Kafka, for clients and for a server.

Kafka's dialect (``ScramFormatter``, ``ScramSaslClient`` at 4.4.0): no channel binding; ``,`` and ``=`` in
user names are escaped; no SASLprep, names and passwords are plain UTF-8, so a library with SASLprep
would fail for some. Nonces are arguments: this module uses no randomness.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from reconciler.errors import AuthenticationError, EncodeError
from reconciler.wire.sasl import DeferredStep

SHA_256: Final = "SCRAM-SHA-256"
SHA_512: Final = "SCRAM-SHA-512"

LEAST_ITERATIONS: Final = 4096
"""Minimum of RFC 7677 and Kafka; a server that requests fewer may be trying to obtain the password."""

MOST_ITERATIONS: Final = 1_000_000
"""Half a second of work; without a limit a hostile server could request hours."""

_DIGESTS: Final = {SHA_256: "sha256", SHA_512: "sha512"}
_NO_BINDING: Final = "n,,"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"  # a nonce: no comma, no blank
_FIRST: Final = re.compile(
    rf"(n,(?:a=([^,]+))?,)((?:n=([^,]+)),r=({_PRINTABLE})(?:,.*)?)", re.DOTALL
)
_CHALLENGE: Final = re.compile(r"r=([^,]+),s=([^,]+),i=([0-9]{1,10})(?:,.*)?", re.DOTALL)


class ServerCredential(Struct, frozen=True, kw_only=True):
    """The data that a server stores instead of a password."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"ServerCredential(iterations={self.iterations})"


def make_credential(
    mechanism: str, *, password: str, salt: bytes, iterations: int
) -> ServerCredential:
    """Return a server's credential for ``password``; takes as long as PBKDF2 with ``iterations``."""
    digest = _digest(mechanism)
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    return ServerCredential(
        salt=salt,
        iterations=iterations,
        stored_key=hashlib.new(digest, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", digest),
    )


def escape(user: str) -> str:
    """Escape a user name for SCRAM."""
    return user.replace("=", "=3D").replace(",", "=2C")


def unescape(text: str) -> str:
    """Unescape a user name of SCRAM.

    Raises:
        AuthenticationError: An ``=`` is not part of an escape.
    """
    if re.search("=(?!2C|3D)", text):
        raise AuthenticationError("the SCRAM user name is not escaped as RFC 5802 requires")
    return text.replace("=2C", ",").replace("=3D", "=")


class ScramClient:
    """The client side: three messages; the last one proves that the server has the password's keys, too."""

    server_error = ""

    def __init__(self, mechanism: str, *, user: str, password: str, nonce: str) -> None:
        """Start an exchange.

        Args:
            mechanism: ``SHA_256`` or ``SHA_512``.
            user: Any text except "".
            password: Any text except "".
            nonce: Printable ASCII without a comma, new and unpredictable.
        """
        if not user or not password:
            raise EncodeError(f"{mechanism} needs a user and a password")
        if not re.fullmatch(_PRINTABLE, nonce):
            raise EncodeError("a SCRAM nonce is printable ASCII without a comma")
        self.name = mechanism
        self._digest = _digest(mechanism)
        self._password = password.encode()
        self._nonce = nonce
        self._bare = f"n={escape(user)},r={nonce}"
        self._signature = b""
        self._step: Callable[[str], DeferredStep | None] = self._prove

    def __repr__(self) -> str:
        return f"ScramClient({self.name!r}, ...)"

    def start(self) -> bytes:
        """Return no channel binding, user and nonce."""
        return (_NO_BINDING + self._bare).encode()

    def receive(self, challenge: bytes) -> DeferredStep | None:
        """Return the proof as a deferred step; then None once the server's signature is verified.

        Raises:
            AuthenticationError: The broker refused the login, or its message breaks the rules of SCRAM.
        """
        text = _text(challenge)
        if text.startswith("e="):
            raise AuthenticationError(f"the broker refused {self.name}: {text[2:][:100]!a}")
        return self._step(text)

    def _prove(self, challenge: str) -> DeferredStep:
        match = _CHALLENGE.fullmatch(challenge)
        if match is None:
            raise AuthenticationError(f"the broker's first {self.name} message cannot be read")
        nonce, salt, iterations = match[1], _base64(match[2]), int(match[3])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationError(
                f"the broker's {self.name} nonce does not extend the client's"
            )
        if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
            raise AuthenticationError(
                f"the broker asks for {iterations} {self.name} iterations;"
                f" {LEAST_ITERATIONS} to {MOST_ITERATIONS} are acceptable"
            )
        self._step = self._refuse

        def run() -> bytes:
            salted = hashlib.pbkdf2_hmac(self._digest, self._password, salt, iterations)
            client_key = hmac.digest(salted, b"Client Key", self._digest)
            stored_key = hashlib.new(self._digest, client_key).digest()
            server_key = hmac.digest(salted, b"Server Key", self._digest)
            without_proof = f"c={_to_base64(_NO_BINDING.encode())},r={nonce}"
            message = f"{self._bare},{challenge},{without_proof}".encode()
            proof = _xor(client_key, hmac.digest(stored_key, message, self._digest))
            self._signature = hmac.digest(server_key, message, self._digest)
            self._step = self._verify
            return f"{without_proof},p={_to_base64(proof)}".encode()

        return DeferredStep(run)

    def _verify(self, answer: str) -> None:
        self._step = self._refuse
        signature = answer.removeprefix("v=").split(",", 1)[0]
        if not answer.startswith("v=") or not hmac.compare_digest(
            _base64(signature), self._signature
        ):
            raise AuthenticationError(
                f"the broker's {self.name} signature is wrong: it does not know the password"
            )

    def _refuse(self, _challenge: str) -> None:
        raise AuthenticationError(f"the broker sent a {self.name} message out of turn")


class ScramServer:
    """The server side, for brokers built from this library: two messages in, two out.

    Attributes:
        user: The name that the client claims, available after the first message.
        is_complete: True once the client has proved its identity.
    """

    def __init__(
        self, mechanism: str, *, lookup: Callable[[str], ServerCredential | None], nonce: str
    ) -> None:
        """Start an exchange.

        Args:
            mechanism: ``SHA_256`` or ``SHA_512``.
            lookup: Returns the credential of a user, None for an unknown one.
            nonce: The server's part of the nonce.
        """
        self._mechanism = mechanism
        self._lookup = lookup
        self._nonce = nonce
        self._first = ""
        self._expected = ""
        self.user = ""
        self.is_complete = False

    def __repr__(self) -> str:
        return f"ScramServer({self._mechanism!r}, ...)"

    def receive(self, token: bytes) -> bytes:
        """Return the response to the client's first or final message.

        Raises:
            AuthenticationError: The message is malformed, the user unknown or the proof wrong.
        """
        text = _text(token)
        return self._final(text) if self._first else self._challenge(text)

    def _challenge(self, text: str) -> bytes:
        match = _FIRST.fullmatch(text)
        if match is None:
            raise AuthenticationError("the client's first SCRAM message cannot be read")
        header, authorization, bare, user, nonce = match.groups()
        if authorization not in (None, user):
            raise AuthenticationError("the SCRAM client requests another authorization id")
        self.user = unescape(user)
        credential = self._credential()
        self._nonce = nonce + self._nonce
        challenge = f"r={self._nonce},s={_to_base64(credential.salt)},i={credential.iterations}"
        self._expected = f"c={_to_base64(header.encode())},r={self._nonce}"
        self._first = f"{bare},{challenge}"
        return challenge.encode()

    def _final(self, text: str) -> bytes:
        without_proof, mark, proof_text = text.rpartition(",p=")
        if self.is_complete or not mark or without_proof != self._expected:
            raise AuthenticationError("the client's final SCRAM message is not the one expected")
        digest = _digest(self._mechanism)
        credential, proof = self._credential(), _base64(proof_text)
        message = f"{self._first},{without_proof}".encode()
        signature = hmac.digest(credential.stored_key, message, digest)
        client_key = _xor(proof.ljust(len(signature), b"\x00"), signature)
        stored_key = hashlib.new(digest, client_key).digest()
        if len(proof) != len(signature) or not hmac.compare_digest(
            stored_key, credential.stored_key
        ):
            raise self._refusal()
        self.is_complete = True
        return b"v=" + _to_base64(hmac.digest(credential.server_key, message, digest)).encode()

    def _credential(self) -> ServerCredential:
        credential = self._lookup(self.user)
        if credential is None:
            raise self._refusal()
        return credential

    def _refusal(self) -> AuthenticationError:
        return AuthenticationError(
            "Authentication failed during authentication due to invalid credentials"
            f" with SASL mechanism {self._mechanism}"
        )


def _digest(mechanism: str) -> str:
    if mechanism not in _DIGESTS:
        raise EncodeError(f"there is no SASL mechanism {mechanism!a} in the SCRAM family")
    return _DIGESTS[mechanism]


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise AuthenticationError("a SCRAM message is not UTF-8") from error


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise AuthenticationError("a SCRAM message has a field that is not Base64") from error


def _to_base64(octets: bytes) -> str:
    return base64.b64encode(octets).decode()


def _xor(first: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(first, right, strict=False))
