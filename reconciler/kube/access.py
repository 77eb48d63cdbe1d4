"""How to reach the API server and who we are: from a kubeconfig or a pod's service account. Nothing is asked here.

Reading kubeconfigs, exec plugins and the pod's token, which the kubelet replaces every hour, is the official client's
work. Its API classes are not used: one status write through them costs four times the CPU of a plain request.
"""

import os
import ssl
import urllib.request
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException, load_kube_config
from kubernetes.aio.config.incluster_config import InClusterConfigLoader

from reconciler.errors import ConfigError

POD_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_HINT: Final = "name a kubeconfig with --kubeconfig or KUBECONFIG, or run in a pod with a service account token"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One way to an API server.

    Attributes:
        host: URL without a slash at the end.
        tls: For https; ``None`` for http.
        server_name: Name in the server's certificate, where it differs from the host.
        proxy: URL of a proxy, where one is needed.
        authorization: The value of the header, read anew where it may have changed; "" = the TLS identity counts.
        namespace: Namespace of the context or of the pod; "default" where none is named.
        again: The same way, read anew, for when the server does not know us any more; ``None`` = there is no other.
    """

    host: str
    tls: ssl.SSLContext | None = field(repr=False)
    server_name: str | None
    proxy: str | None = field(repr=False)
    authorization: Callable[[], Awaitable[str]] = field(repr=False)
    namespace: str
    again: Callable[[], Awaitable["Access"]] | None = field(default=None, repr=False)


async def load(kubeconfig: Path | None = None, *, pod_folder: Path = POD_FOLDER) -> Access:
    """The way in, looked for where kubectl looks: a file that is named, ``KUBECONFIG``, the home folder, the pod.

    Args:
        kubeconfig: A file, instead of looking.
        pod_folder: Where the token of a pod is.

    Raises:
        ConfigError: There is none, or it cannot be read.
    """
    chosen = kubeconfig or _usual_kubeconfig()
    configuration = Configuration()
    try:
        if chosen is not None:
            namespace = await _from_file(chosen, configuration)
        else:
            namespace = _from_pod(pod_folder, configuration)
    except ConfigException as error:
        where = str(chosen) if chosen is not None else ""
        raise ConfigError(
            f"no way to a Kubernetes API server: {_unquoted(error)}", where=where, hint=_HINT
        ) from None
    except Exception as error:  # noqa: BLE001 - the client lets through what its parsers raise
        # A parser's words may quote a token, so only the kind of fault is told.
        raise ConfigError(
            f"no way to a Kubernetes API server: {type(error).__name__} while it was read",
            where=str(chosen or pod_folder),
            hint=_HINT,
        ) from None
    return _access(configuration, namespace, lambda: load(kubeconfig, pod_folder=pod_folder))


def _unquoted(error: ConfigException) -> str:
    """The client's words up to where they name the place: a place holds the whole entry, token included."""
    return str(error).partition(" in ")[0].rstrip(".")


def _usual_kubeconfig() -> Path | None:
    """``KUBECONFIG`` (a list of files is left to the official client's own reader), or the file in the home folder."""
    named = os.environ.get("KUBECONFIG")
    if named:
        return Path(named)
    usual = Path("~/.kube/config").expanduser()
    in_pod = "KUBERNETES_SERVICE_HOST" in os.environ
    return usual if not in_pod and usual.is_file() else None


async def _from_file(path: Path, configuration: Configuration) -> str:
    loader: Any = await load_kube_config(  # type: ignore[no-untyped-call]  # untyped in the official client
        config_file=str(path), client_configuration=configuration, persist_config=False
    )
    return str(loader.current_context["context"].get("namespace") or "default")


def _from_pod(folder: Path, configuration: Configuration) -> str:
    loader: Any = InClusterConfigLoader(  # type: ignore[no-untyped-call]  # untyped in the official client
        token_filename=str(folder / "token"), cert_filename=str(folder / "ca.crt")
    )
    loader.load_and_set(configuration)
    namespace = folder / "namespace"
    return namespace.read_text("utf-8").strip() if namespace.is_file() else "default"


def _access(
    configuration: Configuration, namespace: str, again: Callable[[], Awaitable[Access]]
) -> Access:
    async def authorization() -> str:
        try:
            found = await configuration.get_api_key_with_prefix(
                "BearerToken", alias="authorization"
            )
        except (ConfigException, OSError) as error:
            raise ConfigError(
                f"the service account token cannot be read: {type(error).__name__}"
            ) from None
        # The pod's token file may end with a newline, which no header may hold.
        return str(found).strip() if found else ""

    host = str(configuration.host).rstrip("/")
    return Access(
        host=host,
        tls=_tls(configuration) if host.startswith("https:") else None,
        server_name=configuration.tls_server_name,
        proxy=configuration.proxy or _proxy_of_environment(host),
        authorization=authorization,
        namespace=namespace,
        again=again,
    )


def _tls(configuration: Configuration) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(
            cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data
        )
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"certificates for the Kubernetes API server cannot be used: {error.strerror or 'unreadable'}"
        ) from None
    # Python 3.13 began to refuse CAs without a key identifier; Go, and so kubectl, never did.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _proxy_of_environment(host: str) -> str | None:
    """``HTTPS_PROXY`` and ``NO_PROXY``, as kubectl reads them."""
    name = urlsplit(host).hostname or ""
    if urllib.request.proxy_bypass(name):
        return None
    return urllib.request.getproxies().get(urlsplit(host).scheme)
