"""SASL GSSAPI (RFC 4752) with the extra ``kerberos``, on the security context of the library.

Two phases: tokens until the context is complete, then one wrapped message in which the server offers security
layers and the client selects none, as Kafka requires (``SaslServerAuthenticator`` offers ``auth`` only).
"""

import importlib
from typing import Any, Final

from reconciler.base.installation import install_hint
from reconciler.errors import AuthenticationError, ConfigError

NAME: Final = "GSSAPI"
_NO_LAYER: Final = 1


class KerberosClient:
    """The client side of one exchange."""

    name = NAME

    def __init__(self, gssapi: Any, context: Any) -> None:  # noqa: ANN401 - an extra without types
        self._gssapi = gssapi
        self._context = context
        self._layer_chosen = False
        self.server_error = ""

    def __repr__(self) -> str:
        return "Stepper(...)"

    def start(self) -> bytes:
        """Return the first token of the context."""
        return self._step(None)

    def receive(self, challenge: bytes) -> bytes | None:
        """Return tokens until the context is complete, then the selection of no security layer, then None.

        Raises:
            AuthenticationError: Kerberos refuses the challenge, or the broker insists on a security layer.
        """
        if not self._context.complete:
            return self._step(challenge)
        if self._layer_chosen:
            return None
        try:
            offered: bytes = self._context.unwrap(challenge).message
            if len(offered) != 4 or not offered[0] & _NO_LAYER:
                raise AuthenticationError("the broker insists on a Kerberos security layer")
            self._layer_chosen = True
            wrapped: bytes = self._context.wrap(bytes((_NO_LAYER, 0, 0, 0)), False).message  # noqa: FBT003
        except self._gssapi.exceptions.GSSError as error:
            raise _authentication_error(error) from None
        return wrapped

    def _step(self, token: bytes | None) -> bytes:
        try:
            token_out: bytes | None = self._context.step(token)
        except self._gssapi.exceptions.GSSError as error:
            raise _authentication_error(error) from None
        return token_out or b""


def stepper(service: str, principal: str, server_name: str) -> KerberosClient:
    """Create the client side of an exchange with ``service@server_name``.

    Raises:
        ConfigError: The extra is not installed.
        AuthenticationError: There is no ticket, or not for this principal.
    """
    try:
        gssapi: Any = importlib.import_module("gssapi")
    except ImportError:
        raise ConfigError(
            "sasl.mechanism: GSSAPI needs the extra 'kerberos'",
            key="sasl.mechanism",
            hint=install_hint("kerberos"),
        ) from None
    try:
        target = gssapi.Name(f"{service}@{server_name}", gssapi.NameType.hostbased_service)
        credentials = None
        if principal:
            client_name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
            credentials = gssapi.Credentials(name=client_name, usage="initiate")
        context = gssapi.SecurityContext(name=target, creds=credentials, usage="initiate")
    except gssapi.exceptions.GSSError as error:
        raise _authentication_error(error) from None
    return KerberosClient(gssapi, context)


def _authentication_error(error: Exception) -> AuthenticationError:
    words = " ".join(str(error).split())
    return AuthenticationError(
        f"Kerberos: {words[:200]}", hint="run kinit and klist; check sasl.kerberos.service.name"
    )
