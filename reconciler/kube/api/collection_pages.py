"""Reads all objects of a collection: from the API server's database in pages, or in one response from its memory.

Only the kept part of each object stays in memory. Authors decide how large their objects are, so a page that is too
large is requested again with fewer objects.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from reconciler.base import bounded_json
from reconciler.base.bounded_json import MOST_DEPTH, is_deep
from reconciler.errors import AnswerTooLarge, Gone, KubernetesError
from reconciler.kube.api.http_exchange import ApiRequest

Obj: TypeAlias = dict[str, Any]
Keep: TypeAlias = Callable[[Obj], Mapping[str, Any]]
"""Returns what is kept of an object of a listing."""

LIST_RESTARTS: Final = 3
"""Maximum number of listings in pages that begin anew because their continue token expired."""

LARGEST_PAGE: Final = 4 * 1024 * 1024
"""Maximum bytes of one page; parsed, short labels take fifteen times that. One object has at most 3 MiB."""

LARGEST_CACHED: Final = 32 * 1024 * 1024
"""Maximum bytes of a listing from memory: about 10,000 documents."""

ITEMS: Final = '"items":['
"""Begins the objects of a listing. What precedes it is not written by users."""


def full_object(obj: Obj) -> Mapping[str, Any]:
    """Keep the whole object."""
    return obj


async def read_collection(
    ask: Callable[[ApiRequest], Awaitable[Obj]], request: ApiRequest, *, limit: int, keep: Keep
) -> tuple[list[Obj], str]:
    """Return all objects of a collection at one moment, and its resource version.

    Args:
        ask: Sends one request; the nesting of the response is checked here.
        request: The listing.
        limit: Objects per page; fewer if they are large.
        keep: Returns what is kept of each object.

    Raises:
        Gone: The continue token expired in each attempt.
        KubernetesError: A response is not a listing, or a single object is too large.
    """
    for _ in range(LIST_RESTARTS):
        try:
            return await _read_pages(ask, request, limit=limit, keep=keep)
        except Gone:
            # The continue token expired; the pages read so far belong to an older resource version.
            continue
    return await _read_pages(ask, request, limit=limit, keep=keep)


async def _read_pages(
    ask: Callable[[ApiRequest], Awaitable[Obj]],
    first_request: ApiRequest,
    *,
    limit: int,
    keep: Keep,
) -> tuple[list[Obj], str]:
    items: list[Obj] = []
    token = ""
    while True:
        query = {"limit": str(limit), **({"continue": token} if token else {})}
        request = replace(
            first_request, query={**first_request.query, **query}, largest=LARGEST_PAGE
        )
        try:
            page = await ask(request)
        except AnswerTooLarge:
            if limit == 1:
                raise
            limit = max(limit // 4, 1)
            continue
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
        items += (dict(keep(item)) for item in page_items or ())
        token = page["metadata"].get("continue") or ""
        if not token:
            return items, str(page["metadata"].get("resourceVersion", ""))


async def read_cached(
    answer: Callable[[ApiRequest], Awaitable[bytes]], request: ApiRequest, *, keep: Keep
) -> tuple[list[Obj], str] | None:
    """Return a collection as the API server has it in memory, which may lack the last changes, and its resource version.

    It takes the API server a fifth of the CPU of pages that it reads from etcd, but memory has no pages: the objects
    are parsed one after another.

    Args:
        answer: Sends one request; returns the body of the response.
        request: The listing.
        keep: Returns what is kept of each object.

    Returns:
        ``None`` if the collection is too large, or there is no response that can be read.
    """
    query = {**request.query, "resourceVersion": "0"}
    try:
        text = (await answer(replace(request, query=query, largest=LARGEST_CACHED))).decode()
        items: list[Obj] = []
        end = _take_items(text, lambda item: items.append(dict(keep(item))))
        envelope = text[: text.index(ITEMS)] + ITEMS + text[end:]
        metadata = bounded_json.parse(envelope, most_bytes=bounded_json.SMALL)["metadata"]
        version, is_whole = str(metadata["resourceVersion"]), not metadata.get("continue")
    except (KubernetesError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return (items, version) if is_whole else None


def _take_items(text: str, take: Callable[[Obj], object]) -> int:
    """Parse the objects of a listing one after another; return where they end.

    Raises:
        ValueError: The text is no compact JSON, or an object is nested too deep.
    """
    decoder, at = json.JSONDecoder(), text.index(ITEMS) + len(ITEMS)
    while not text.startswith("]", at):
        item, at = decoder.raw_decode(text, at)
        _ = item.get("metadata", {}).pop("managedFields", None)
        if is_deep(item):
            raise ValueError("nested too deep")
        take(item)
        at += text.startswith(",", at)
    return at
