"""Loads API server address and credentials from a kubeconfig or a pod's service account. Sends no request.

The official client reads kubeconfigs and runs their exec plugins. Its API classes are not used: one status write
through them costs four times the CPU of a plain request. In a pod it is not even imported, because it takes 20 MB and
only four files have to be read.
"""

import os
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from reconciler.base.http.messages import proxy_for
from reconciler.base.redaction import QuietRepr, remember
from reconciler.errors import ConfigError

if TYPE_CHECKING:
    from kubernetes.aio.client import Configuration
    from kubernetes.aio.config import ConfigException

POD_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_HINT: Final = "name a kubeconfig with --kubeconfig or KUBECONFIG, or run in a pod with a service account token"


class ApiAccess(QuietRepr, Struct, frozen=True, kw_only=True):
    """Address and credentials of an API server."""

    host: str  # URL without a trailing slash
    tls: ssl.SSLContext | None  # for https; None for http
    server_name: str | None  # name in the server's certificate, if it differs from the host
    proxy: str | None  # URL of a proxy, if one is needed
    # Returns the value of the header, read again if it may have changed; "" = the TLS identity is used.
    authorization: Callable[[], Awaitable[str]]


async def load(kubeconfig: Path | None = None, *, pod_folder: Path = POD_FOLDER) -> ApiAccess:
    """Load API server credentials from the same places as kubectl: a given file, ``KUBECONFIG``, ``~/.kube/config``, the pod.

    Args:
        kubeconfig: A file to use instead.
        pod_folder: Folder of the pod's service account token.

    Raises:
        ConfigError: There are none, or they cannot be read.
    """
    path = kubeconfig or _usual_kubeconfig()
    return _of_pod(pod_folder) if path is None else await _of_file(path)


# ---- in a pod --------------------------------------------------------------------------------


def _of_pod(folder: Path) -> ApiAccess:
    """Return access by the pod's service account.

    Raises:
        ConfigError: The process does not run in a pod with a service account.
    """
    host, authority = pod_host(), folder / "ca.crt"
    if not host or not authority.is_file():
        raise ConfigError(
            "no credentials for a Kubernetes API server: there is no kubeconfig, and this is not a pod with a service account",
            location=str(folder),
            hint=_HINT,
        )
    _ = _token(folder)

    async def authorization() -> str:
        return f"Bearer {_token(folder)}"  # The kubelet replaces the file every hour.

    return ApiAccess(
        host=host,
        tls=_tls(authority=str(authority)),
        server_name=None,
        proxy=proxy_for(host) or None,
        authorization=authorization,
    )


def pod_host() -> str:
    """Return the URL of the API server from the variables that the kubelet sets; "" outside of pods."""
    name = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "")
    if not name or not port:
        return ""
    return f"https://[{name}]:{port}" if ":" in name else f"https://{name}:{port}"


def _token(folder: Path) -> str:
    try:
        # The file may end with a newline, which is not allowed in a header.
        token = (folder / "token").read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the service account token cannot be read: {type(error).__name__}", hint=_HINT
        ) from None
    if not token:
        raise ConfigError("the service account token is empty", hint=_HINT)
    remember(token)
    return token


# ---- by a kubeconfig -------------------------------------------------------------------------


async def _of_file(path: Path) -> ApiAccess:
    from kubernetes.aio.client import Configuration  # noqa: PLC0415 - 20 MB that no pod needs
    from kubernetes.aio.config import ConfigException  # noqa: PLC0415 - the same

    configuration = Configuration()
    try:
        await _from_file(path, configuration)
    except ConfigException as error:
        raise ConfigError(
            f"the kubeconfig cannot be used: {_unquoted(error)}", location=str(path), hint=_HINT
        ) from None
    except Exception as error:  # noqa: BLE001 - the client lets through what its parsers raise
        # A parser's message may quote a token, so only the type of the error is reported.
        raise ConfigError(
            f"the kubeconfig cannot be used: {type(error).__name__} while it was read",
            location=str(path),
            hint=_HINT,
        ) from None
    return _access(configuration)


def _unquoted(error: "ConfigException") -> str:
    """Return the client's message up to the place: the place contains the whole entry, token included."""
    return str(error).partition(" in ")[0].rstrip(".")


def _usual_kubeconfig() -> Path | None:
    """Return ``KUBECONFIG``, which the client splits into files and merges, or outside of pods ``~/.kube/config``."""
    variable = os.environ.get("KUBECONFIG")
    if variable:
        return Path(variable)
    usual = Path("~/.kube/config").expanduser()
    in_pod = "KUBERNETES_SERVICE_HOST" in os.environ
    return usual if not in_pod and usual.is_file() else None


async def _from_file(path: Path, configuration: "Configuration") -> None:
    from kubernetes.aio.config import load_kube_config  # noqa: PLC0415 - 20 MB that no pod needs

    _ = await load_kube_config(  # type: ignore[no-untyped-call]  # untyped in the official client
        config_file=str(path), client_configuration=configuration, persist_config=False
    )


def _access(configuration: "Configuration") -> ApiAccess:
    async def authorization() -> str:
        try:
            api_key = await configuration.get_api_key_with_prefix(
                "BearerToken", alias="authorization"
            )
        except Exception as error:  # noqa: BLE001 - plugins may raise anything
            raise ConfigError(
                f"the token of the kubeconfig cannot be read: {type(error).__name__}"
            ) from None
        # A token file may end with a newline, which is not allowed in a header.
        return str(api_key).strip() if api_key else ""

    host = str(configuration.host).rstrip("/")
    return ApiAccess(
        host=host,
        tls=_tls(
            authority=configuration.ssl_ca_cert,
            pem=configuration.ca_cert_data,
            chain=configuration.cert_file,
            key=configuration.key_file,
            verify=bool(configuration.verify_ssl),
        )
        if host.startswith("https:")
        else None,
        server_name=configuration.tls_server_name,
        proxy=configuration.proxy or proxy_for(host) or None,
        authorization=authorization,
    )


def _tls(
    *,
    authority: str | None = None,
    pem: str | bytes | None = None,
    chain: str | None = None,
    key: str | None = None,
    verify: bool = True,
) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=authority, cadata=pem)
        if chain:
            context.load_cert_chain(chain, keyfile=key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"certificates for the Kubernetes API server cannot be used: {error.strerror or 'unreadable'}"
        ) from None
    # Python 3.13 began to reject CAs without a key identifier; Go, and so kubectl, accepts them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
