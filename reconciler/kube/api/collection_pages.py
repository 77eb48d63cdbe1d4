"""Reads all objects of a collection: from the API server's database in pages, or in one response from its memory.

A page with the same bytes as a page that the caller remembers is not parsed again.
Only the kept part of each object stays in memory. Authors decide how large their objects are, so a page that is too
large is requested again with fewer objects.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from msgspec.structs import replace

from reconciler.base.bounded_json import MOST_DEPTH, is_deep
from reconciler.errors import AnswerTooLarge, Gone, KubernetesError
from reconciler.kube.api.custom_resources import Obj
from reconciler.kube.api.http_exchange import ApiRequest
from reconciler.kube.api.listing_parser import ITEMS, Keep, ListingParser

LIST_RESTARTS: Final = 3
"""Maximum number of listings in pages that begin anew because their continue token expired."""

LARGEST_PAGE: Final = 4 * 1024 * 1024
"""Maximum bytes of one page; parsed, short labels take fifteen times that. One object has at most 3 MiB."""

LARGEST_CACHED: Final = 512 * 1024 * 1024
"""Maximum bytes of a listing from memory, which is parsed while it is received: about 160,000 documents."""

_END: Final = b'],"kind":'
"""Ends the objects of a listing of custom resources. What follows it is not written by users."""


class PageMemory(Protocol):
    """Remembers the objects of pages by a digest of their bytes."""

    def recall(self, digest: bytes) -> Sequence[Mapping[str, Any]] | None:
        """Return the objects of a remembered page; ``None`` if the page has to be parsed."""
        ...

    def remember(self, digest: bytes, items: Sequence[Mapping[str, Any]]) -> None:
        """Remember the kept objects of a page."""
        ...


def full_object(obj: Obj) -> Mapping[str, Any]:
    """Keep the whole object."""
    return obj


async def read_collection(
    answer: Callable[[ApiRequest], Awaitable[bytes]],
    parse: Callable[[bytes], Obj],
    request: ApiRequest,
    *,
    limit: int,
    keep: Keep,
    memory: PageMemory | None = None,
) -> tuple[list[Obj], str]:
    """Return all objects of a collection at one moment, and its resource version.

    Args:
        answer: Sends one request; returns the body of the response.
        parse: Parses a body; the nesting is checked here.
        request: The listing.
        limit: Objects per page; fewer if they are large.
        keep: Returns what is kept of each object.
        memory: The pages of an earlier listing; ``None`` = every page is parsed.

    Raises:
        Gone: The continue token expired in each attempt.
        KubernetesError: A response is not a listing, or a single object is too large.
    """
    for _ in range(LIST_RESTARTS):
        try:
            return await _read_pages(answer, parse, request, limit=limit, keep=keep, memory=memory)
        except Gone:
            # The continue token expired; the pages read so far belong to an older resource version.
            continue
    return await _read_pages(answer, parse, request, limit=limit, keep=keep, memory=memory)


async def _read_pages(
    answer: Callable[[ApiRequest], Awaitable[bytes]],
    parse: Callable[[bytes], Obj],
    first_request: ApiRequest,
    *,
    limit: int,
    keep: Keep,
    memory: PageMemory | None,
) -> tuple[list[Obj], str]:
    items: list[Obj] = []
    token = ""
    while True:
        query = {"limit": str(limit), **({"continue": token} if token else {})}
        request = replace(
            first_request, query={**first_request.query, **query}, largest=LARGEST_PAGE
        )
        try:
            body = await answer(request)
        except AnswerTooLarge:
            if limit == 1:
                raise
            limit = max(limit // 4, 1)
            continue
        outline = None if memory is None else _outline(body)
        recalled = None if memory is None or outline is None else memory.recall(outline[0])
        page = parse(body if outline is None or recalled is None else outline[1])
        page_items = page.get("items", "")
        if not isinstance(page_items, list | None) or not isinstance(page.get("metadata"), dict):
            raise KubernetesError(f"{first_request}: the answer is no listing")
        for item in page_items or ():  # Go writes an empty list as null
            _ = item.get("metadata", {}).pop("managedFields", None)
        # Managed fields are most of a page, and nested like the object that they are about.
        if is_deep(page_items):
            raise KubernetesError(
                f"{first_request}: an object is nested more than {MOST_DEPTH} levels deep"
            )
        objects = [dict(keep(item)) for item in page_items or ()]
        if memory is not None and outline is not None and recalled is None:
            memory.remember(outline[0], objects)
        items += objects if recalled is None else map(dict, recalled)
        token = page["metadata"].get("continue") or ""
        if not token:
            return items, str(page["metadata"].get("resourceVersion", ""))


def _outline(body: bytes) -> tuple[bytes, bytes] | None:
    """Return a digest of the objects of a listing, and the listing without objects; ``None`` if it has another form."""
    begin, end = body.find(ITEMS.encode()), body.rfind(_END)
    if begin < 0 or end < begin:
        return None
    begin += len(ITEMS)
    digest = hashlib.sha256(memoryview(body)[begin:end]).digest()
    return digest, body[:begin] + body[end:]


# What may rely on this listing: docs/adr/operator-cold-start.md.
async def read_cached(
    answer: Callable[[ApiRequest], Awaitable[bytes]], request: ApiRequest, *, keep: Keep
) -> tuple[list[Obj], str] | None:
    """Return a collection as the API server has it in memory, which may lack the last changes, and its resource version.

    It takes the API server a fifth of the CPU of pages that it reads from etcd, but memory has no pages: the objects
    are parsed while they are received.

    Args:
        answer: Sends one request, once; returns the part of the body that :attr:`ApiRequest.on_part` did not get.
        request: The listing.
        keep: Returns what is kept of each object.

    Returns:
        ``None`` if the collection is too large, or there is no response that can be read.
    """
    parser = ListingParser(keep)
    query = {**request.query, "resourceVersion": "0"}
    request = replace(request, query=query, largest=LARGEST_CACHED, on_part=parser.feed)
    try:
        parser.feed(await answer(request))
    except KubernetesError:
        return None
    return parser.listing()
