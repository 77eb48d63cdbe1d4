"""HTTP for every adapter: one retry policy, one Retry-After, one body limit, one rule for proxies and plain HTTP.

Start with `messages` (a request, a response, the reason of no response) and `retry` (what is tried again, and when).
`client` is the transport on aiohttp, which the extras bring; `blocking` is the one on the standard library, for the
client library, which has no dependencies. Neither follows redirects, keeps cookies or reads ``~/.netrc``.
"""
