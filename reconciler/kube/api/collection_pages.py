"""Reads all objects of a collection: from the API server's database in pages, or in one response from its memory.

The text of each object is parsed alone, by the caller. Authors decide how large their objects are, so a page that is too
large is requested again with fewer objects.
"""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from reconciler.base import bounded_json
from reconciler.base.bounded_json import MOST_DEPTH, is_deep
from reconciler.base.redaction import QuietRepr
from reconciler.errors import AnswerTooLarge, Gone, KubernetesError
from reconciler.kube.api.custom_resources import Obj
from reconciler.kube.api.http_exchange import ApiRequest

LIST_RESTARTS: Final = 3
"""Maximum number of listings in pages that begin anew because their continue token expired."""

LARGEST_PAGE: Final = 4 * 1024 * 1024
"""Maximum bytes of one page; parsed, short labels take fifteen times that. One object has at most 3 MiB."""

LARGEST_CACHED: Final = 96 * 1024 * 1024
"""Maximum bytes of a listing from memory, which is in memory as a whole: about 25,000 documents."""

Keep: TypeAlias = Callable[[bytes], Any]
"""Returns what is kept of the text of an object."""


class ListResult(QuietRepr, Struct, frozen=True, kw_only=True):
    """A whole collection at one moment."""

    items: tuple[Any, ...]  # what is kept of each object, in the server's order
    resource_version: str  # the resource version of the listing, opaque


class _PageMetadata(Struct):
    resource_version: str = field(default="", name="resourceVersion")
    token: str = field(default="", name="continue")


class _Page(Struct):
    metadata: _PageMetadata
    items: list[Raw] | None  # Go writes an empty list as null


def full_object(text: bytes) -> Obj:
    """Keep the whole object, without its managed fields: they are most of a page, and nested like the object itself.

    Raises:
        KubernetesError: It is nested too deep.
    """
    obj: Any = bounded_json.parse(text, most_bytes=LARGEST_PAGE, checks_depth=False)
    _ = obj.get("metadata", {}).pop("managedFields", None)
    if is_deep(obj):
        raise KubernetesError(f"an object is nested more than {MOST_DEPTH} levels deep")
    return dict(obj)


# What may rely on a listing from memory: docs/adr/operator-cold-start.md.
async def read_collection(
    answer: Callable[[ApiRequest], Awaitable[bytes]],
    request: ApiRequest,
    *,
    keep: Keep,
    limit: int,
) -> ListResult:
    """Return all objects of a collection at one moment.

    Args:
        answer: Sends one request; returns the body of the response.
        request: The listing.
        keep: Returns what is kept of each object.
        limit: Objects per page, fewer if they are large; 0 = one response, which ``request`` asks the API server's
            memory for.

    Raises:
        Gone: The continue token expired in each attempt.
        KubernetesError: A response is not a listing, or a single object is too large.
    """
    for _ in range(LIST_RESTARTS):
        # The continue token expired; the pages read so far belong to an older resource version.
        with contextlib.suppress(Gone):
            return await _read_pages(answer, request, keep, limit)
    return await _read_pages(answer, request, keep, limit)


async def _read_pages(
    answer: Callable[[ApiRequest], Awaitable[bytes]], first: ApiRequest, keep: Keep, limit: int
) -> ListResult:
    items: list[Any] = []
    query = {"limit": str(limit)} if limit else {}
    largest = LARGEST_PAGE if limit else LARGEST_CACHED
    while True:
        request = replace(first, query={**first.query, **query}, largest=largest)
        try:
            page = msgspec.json.decode(await answer(request), type=_Page)
            items += (keep(bytes(text)) for text in page.items or ())
        except AnswerTooLarge:
            if limit <= 1:
                raise
            limit = max(limit // 4, 1)
            query["limit"] = str(limit)
            continue
        except (ValueError, AttributeError, RecursionError):  # of the parsers
            raise KubernetesError(f"{first}: the answer is no listing") from None
        if not page.metadata.token:
            return ListResult(items=tuple(items), resource_version=page.metadata.resource_version)
        query["continue"] = page.metadata.token
