"""The proxy that the environment names for an address. Logins of `~/.netrc` are no part of it."""

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass


def proxy_for(address: str) -> str:
    """The proxy that ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY`` configure; "" = none.

    aiohttp's own ``trust_env`` would also read ``~/.netrc``, and send what stands there over open lines.
    """
    split = urlsplit(address)
    if proxy_bypass(split.hostname or ""):
        return ""
    return getproxies().get(split.scheme, "")
