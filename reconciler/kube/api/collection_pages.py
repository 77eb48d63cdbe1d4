"""Reads a collection in pages of bounded size; only the kept part of each object stays in memory.

Authors decide how large their objects are, so a page that is too large is requested again with fewer objects.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from reconciler.base.bounded_json import MOST_DEPTH, is_deep
from reconciler.errors import AnswerTooLarge, KubernetesError
from reconciler.kube.api.http_exchange import ApiRequest

Obj: TypeAlias = dict[str, Any]
Keep: TypeAlias = Callable[[Obj], Mapping[str, Any]]
"""Returns what is kept of an object of a listing."""


def full_object(obj: Obj) -> Mapping[str, Any]:
    """Keep the whole object."""
    return obj


LARGEST_PAGE: Final = 4 * 1024 * 1024
"""Maximum bytes of one page; parsed, short labels take fifteen times that. One object has at most 3 MiB."""


async def read_pages(
    ask: Callable[[ApiRequest], Awaitable[Obj]],
    first_request: ApiRequest,
    *,
    limit: int,
    keep: Keep,
) -> tuple[list[Obj], str]:
    """Return all objects of a collection at one moment, and its resource version.

    Args:
        ask: Sends one request; the nesting of the response is checked here.
        first_request: The listing.
        limit: Objects per page; fewer if they are large.
        keep: Returns what is kept of each object.

    Raises:
        Gone: The continue token expired.
        KubernetesError: A response is not a listing, or a single object is too large.
    """
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
