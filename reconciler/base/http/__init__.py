"""HTTP for every adapter: one implementation of retries, Retry-After, body limits, proxies and the check for plain HTTP.

Start with `messages`: request, response, the reason for a missing response, and what is retried when. `client` is the
transport on aiohttp, which the extras install. It follows no redirects, stores no cookies and does not read
``~/.netrc``.
"""
