"""Complete listings: unchanged pages are answered from the cache, and the cache always equals the API server."""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.resource_paths import CLIENT_QUOTAS
from reconciler.kube.configuration.namespace_limits import NamespaceLimits
from reconciler.kube.watch.resource_cache import ResourceCache
from reconciler.kube.watch.resource_listing import FullListing
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from tests.fakes.clock import FakeClock
from tests.hypothesis_profiles import count_examples
from tests.kube.answering import Server
from tests.kube.worlds import quota_cluster, resource, seen

PER_PAGE = 3
SEEDS = min(5, count_examples(5))


class Documents:
    """The ClientQuotas of an API server, in pages of three."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.version = 1

    def put(self, name: str, value: int) -> None:
        """Create a document, or change it."""
        self.version += 1
        obj = resource(name, entity(user=name), {Key.PRODUCER_BYTE_RATE: value})
        earlier = self.objects.get(name)
        uid = f"uid-{self.version}" if earlier is None else earlier["metadata"]["uid"]
        obj["metadata"] |= {
            "uid": uid,
            "generation": self.version,
            "resourceVersion": str(self.version),
            "labels": {"text": '],"kind":"'},
        }
        self.objects[name] = obj

    def page(self, token: str) -> bytes:
        """A page in the API server's format: the metadata is last."""
        start = int(token or 0)
        names = sorted(self.objects)[start : start + PER_PAGE]
        following = str(start + PER_PAGE) if start + PER_PAGE < len(self.objects) else ""
        return json.dumps(
            {
                "apiVersion": CLIENT_QUOTAS.api_version,
                "items": [self.objects[name] for name in names],
                "kind": "ClientQuotaList",
                "metadata": {"continue": following, "resourceVersion": str(self.version)},
            },
            separators=(",", ":"),
        ).encode()


@contextlib.asynccontextmanager
async def listing_of(
    documents: Documents, cache: ResourceCache, requests: list[Any] | None = None
) -> AsyncIterator[FullListing]:
    """The listing of one QuotaCluster and its documents into a cache; the requests are noted."""

    def respond(request: Any) -> Any:
        if requests is not None:
            requests.append(request)
        if "quotaclusters" in request.path:
            return {"items": [quota_cluster()], "metadata": {"resourceVersion": "1"}}
        return web.Response(body=documents.page(request.query.get("continue", "")))

    async with (
        Server(respond) as server,
        KubernetesApi(server.access(), clock=FakeClock(), on_request=lambda *_: None) as api,
    ):
        yield FullListing(
            api,
            cache,
            namespaces=(),
            from_file=None,
            enqueue=lambda names, key: None,
            on_listed=lambda: None,
        )


def assert_cache_follows(seed: int, limits: NamespaceLimits | None) -> None:
    """Change documents at random; after each listing the cache equals them."""
    rng, documents, cache = random.Random(seed), Documents(), ResourceCache(limits)

    async def story() -> None:
        async with listing_of(documents, cache) as listing:
            for _ in range(30):
                for _ in range(rng.choice((0, 1, 1, 2))):
                    name = f"d{rng.randrange(12)}"
                    if name in documents.objects and rng.random() < 0.4:
                        obj = documents.objects.pop(name)
                        documents.version += 1
                        if rng.random() < 0.5:
                            _ = cache.forget(seen(obj))
                    else:
                        documents.put(name, rng.choice((2048, 4096)))
                        if rng.random() < 0.5:
                            _ = cache.observe(seen(documents.objects[name]))
                assert await listing()
                present = {document: obj.version for document, obj in cache.of("prod").items()}
                assert present == {
                    f"team/{name}": obj["metadata"]["resourceVersion"]
                    for name, obj in documents.objects.items()
                }
                assert (
                    await listing()
                )  # The first one may have ended documents only after it was reported to others.
                served = sum("limits" in obj.spec for obj in cache.of("prod").values())
                most = len(present) if limits is None else min(limits.documents, len(present))
                assert served == most

    asyncio.run(story())


def test_the_documents_of_an_entity_are_listed_at_least_as_new_as_every_observed_one() -> None:
    documents, cache, requests = Documents(), ResourceCache(), list[Any]()
    for name in ("a", "b"):
        documents.put(name, 2048)
        _ = cache.observe(seen(documents.objects[name]))
    documents.put("b", 4096)

    async def story() -> None:
        async with listing_of(documents, cache, requests) as listing:
            assert await listing.declaring([entity(user="a")]) is not None
            _ = cache.forget(seen(documents.objects["b"]))
            assert await listing.declaring([(None, "x=1, y\\", False)]) is not None
            assert (
                await listing.declaring([entity(user=f"{number}") for number in range(65)]) is None
            )

    asyncio.run(story())
    selected = [dict(request.query) for request in requests]
    memory = {"resourceVersionMatch": "NotOlderThan"}
    fields = "spec.entity.user.name={},spec.entity.clientId.name={},spec.entity.ip.name="
    assert selected == [
        {**memory, "resourceVersion": "3", "fieldSelector": fields.format("a", "")},
        {**memory, "resourceVersion": "4", "fieldSelector": fields.format("", r"x\=1\, y\\")},
    ]


def test_no_entity_is_listed_before_a_document_was_observed() -> None:
    async def story() -> None:
        async with listing_of(Documents(), ResourceCache()) as listing:
            assert await listing.declaring([entity(user="a")]) is None

    asyncio.run(story())


def test_after_each_listing_the_cache_has_what_the_api_server_has() -> None:
    for seed in range(SEEDS):
        assert_cache_follows(seed, None)


def test_documents_that_fit_into_a_full_namespace_again_are_served_after_a_listing() -> None:
    for seed in range(SEEDS):
        assert_cache_follows(seed, NamespaceLimits(documents=5))
