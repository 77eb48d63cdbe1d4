"""Which addresses are local, and the proxy for the others."""

import ipaddress
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass


def is_loopback(host: str) -> bool:
    """Whether a host, as in ``urlsplit(...).hostname``, is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_plain(url: str) -> bool:
    """Whether a request to this URL crosses a network without TLS. Plain HTTP to this machine does not."""
    split = urlsplit(url)
    return split.scheme != "https" and not is_loopback(split.hostname or "")


def proxy_for(url: str) -> str:
    """Return the proxy that ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY`` configure; "" = none.

    Loopback addresses never use a proxy, as in curl and Go.
    """
    split = urlsplit(url)
    host = split.hostname or ""
    if is_loopback(host) or proxy_bypass(host):
        return ""
    return getproxies().get(split.scheme, "")
