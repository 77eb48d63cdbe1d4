"""The client of the API server: paths, bodies, pages, retries, errors, and no secret in any message."""

import asyncio
import json
import logging
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from reconciler.base.bounded_json import MOST_DEPTH
from reconciler.errors import (
    ConfigError,
    Forbidden,
    Gone,
    KubernetesConflict,
    KubernetesError,
    KubernetesUnavailable,
    NotFound,
)
from reconciler.kube.api import collection_pages, resource_paths
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.collection_pages import ListResult
from reconciler.kube.api.custom_resources import FIELD_MANAGER
from reconciler.kube.api.http_exchange import RequestTimeouts
from tests.fakes.clock import FakeClock
from tests.kube.answering import Server, status

QUOTA = {"metadata": {"name": "a", "namespace": "n", "resourceVersion": "7", "managedFields": [{}]}}


def one_after_the_other(*answers: Any) -> Callable[[object], Any]:
    iterator = iter(answers)
    return lambda _: next(iterator)


class World:
    """The dependencies of a `KubernetesApi` in a test."""

    def __init__(
        self, server: Server, api: KubernetesApi, clock: FakeClock, reports: list[Any]
    ) -> None:
        self.server, self.api, self.clock, self.reports = server, api, clock, reports


@asynccontextmanager
async def world_with(answers: Callable[[Any], Any], *, authorization: Any = None, **options: Any):
    reports: list[Any] = []
    clock = FakeClock()
    async with Server(answers) as server:
        access = server.access(authorization)
        api = KubernetesApi(
            access, clock=clock, on_request=lambda *report: reports.append(report), **options
        )
        async with api:
            yield World(server, api, clock, reports)


def test_an_object_is_requested_by_group_version_namespace_and_name() -> None:
    async def story() -> None:
        async with world_with(lambda _: QUOTA) as world:
            obj = await world.api.get(resource_paths.CLIENT_QUOTAS, "n", "a")
            await world.api.get(resource_paths.QUOTA_CLUSTERS, None, "prod")
            await world.api.get(resource_paths.SECRETS, "kafka", "login")
        assert obj["metadata"]["name"] == "a"
        assert [request.path for request in world.server.requests] == [
            "/apis/kafka-quotas.io/v1alpha1/namespaces/n/clientquotas/a",
            "/apis/kafka-quotas.io/v1alpha1/quotaclusters/prod",
            "/api/v1/namespaces/kafka/secrets/login",
        ]
        assert world.server.requests[0].headers["Authorization"] == "Bearer t0ken-planted"
        assert world.reports[0] == ("get", "clientquotas", "200")

    asyncio.run(story())


def test_a_name_is_escaped_in_the_path() -> None:
    async def story() -> None:
        async with world_with(lambda _: QUOTA) as world:
            await world.api.get(resource_paths.CLIENT_QUOTAS, "n", "../../secrets/x?y=1#z%2e")
        (request,) = world.server.requests
        assert request.path.endswith("/clientquotas/..%2F..%2Fsecrets%2Fx%3Fy%3D1%23z%252e")

    asyncio.run(story())


def test_a_listing_reads_all_pages_and_drops_managed_fields() -> None:
    pages = {
        "": {"items": [QUOTA], "metadata": {"resourceVersion": "5", "continue": "next"}},
        "next": {"items": [QUOTA, QUOTA], "metadata": {"resourceVersion": "5"}},
    }

    async def story() -> None:
        async with world_with(lambda request: pages[request.query.get("continue", "")]) as world:
            listing = await world.api.list(resource_paths.CLIENT_QUOTAS, limit=1, labels="a=b")
        assert len(listing.items) == 3
        assert listing.resource_version == "5"
        assert all("managedFields" not in obj["metadata"] for obj in listing.items)
        assert [request.query for request in world.server.requests] == [
            {"limit": "1", "labelSelector": "a=b"},
            {"limit": "1", "labelSelector": "a=b", "continue": "next"},
        ]

    asyncio.run(story())


def test_a_page_that_is_too_large_is_requested_again_with_fewer_objects() -> None:
    """Authors determine the size of their objects: a listing must not fail, nor be in memory as a whole."""

    def named(text: bytes) -> dict[str, Any]:
        return {"name": json.loads(text)["metadata"]["name"]}

    large = json.dumps({"metadata": {"name": "a", "annotations": {"x": "y" * 250_000}}})

    async def story() -> None:
        def answer(request: Any) -> Any:
            first = int(request.query.get("continue", "0"))
            last = min(first + int(request.query["limit"]), 300)
            more = {"continue": str(last)} if last < 300 else {}
            metadata = json.dumps({"resourceVersion": "5", **more})
            items = ",".join([large] * (last - first))
            return web.json_response(text=f'{{"metadata": {metadata}, "items": [{items}]}}')

        patience = RequestTimeouts(seconds=600)
        async with world_with(answer, patience=patience) as world:
            listing = await world.api.list(resource_paths.CLIENT_QUOTAS, limit=250, keep=named)
        assert len(listing.items) == 300
        assert {str(obj) for obj in listing.items} == {"{'name': 'a'}"}
        assert [request.query["limit"] for request in world.server.requests][:3] == [
            "250",
            "62",
            "15",
        ]

    asyncio.run(story())


def test_an_object_that_is_nested_too_deep_is_an_error_except_for_its_managed_fields() -> None:
    nest: list[Any] = []
    for _ in range(MOST_DEPTH):
        nest = [nest]

    async def story() -> None:
        fields = {"metadata": {"name": "a", "managedFields": nest}}
        deep = {"metadata": {"name": "a"}, "spec": {"limits": nest}}
        answers = (listing(fields), listing(deep))
        async with world_with(one_after_the_other(*answers)) as world:
            objects = await world.api.list(resource_paths.CLIENT_QUOTAS)
            assert objects.items == ({"metadata": {"name": "a"}},)
            with pytest.raises(KubernetesError, match="nested more than 200 levels deep"):
                _ = await world.api.list(resource_paths.CLIENT_QUOTAS)

    def listing(item: dict[str, Any]) -> dict[str, Any]:
        return {"metadata": {"resourceVersion": "9"}, "items": [item]}

    asyncio.run(story())


def test_a_listing_with_an_expired_token_starts_again_and_keeps_no_earlier_page() -> None:
    first = {"items": [QUOTA], "metadata": {"resourceVersion": "5", "continue": "old"}}
    second = {"items": [], "metadata": {"resourceVersion": "9"}}

    async def story() -> None:
        answers = one_after_the_other(first, status(410, "Expired", "too old"), second)
        async with world_with(answers) as world:
            listing = await world.api.list(resource_paths.CLIENT_QUOTAS)
        assert listing.items == ()
        assert listing.resource_version == "9"

    asyncio.run(story())


def test_a_listing_that_exceeds_its_time_is_an_error_and_not_a_partial_result() -> None:
    first = {"items": [QUOTA], "metadata": {"continue": "old"}}

    async def story() -> None:
        def answer(request: Any) -> Any:
            return status(410, "Expired") if "continue" in request.query else first

        async with world_with(answer) as world:
            with pytest.raises(Gone):
                await world.api.list(resource_paths.CLIENT_QUOTAS)

    asyncio.run(story())


IN_MEMORY = {"items": [QUOTA, QUOTA], "metadata": {"resourceVersion": "5"}}
CACHED = {"resourceVersion": "0", "resourceVersionMatch": "NotOlderThan"}


def list_cached(*answers: Any) -> tuple[ListResult, list[dict[str, str]]]:
    """A listing from the API server's memory, and the parameters of all requests for it."""

    async def story() -> tuple[ListResult, list[dict[str, str]]]:
        async with world_with(one_after_the_other(*answers)) as world:
            listing = await world.api.list(resource_paths.CLIENT_QUOTAS, limit=9, at_least="0")
            return listing, [dict(request.query) for request in world.server.requests]

    return asyncio.run(story())


@pytest.mark.parametrize("turns", [False, True], ids=["items first", "metadata first"])
def test_a_listing_from_the_watch_cache_is_one_request_without_managed_fields(turns: bool) -> None:
    named = {"metadata": {"name": "ü😀", "annotations": {"a": '"items":[{"x":1}],"metadata":{}}'}}}
    answer = {"items": [QUOTA, named], "metadata": {"resourceVersion": "5"}}
    text = json.dumps(dict(reversed(answer.items())) if turns else answer, separators=(",", ":"))
    listing, requests = list_cached(web.Response(text=text))
    assert listing.resource_version == "5"
    assert listing.items[1] == named
    assert "managedFields" not in listing.items[0]["metadata"]
    assert requests == [CACHED]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "not JSON",
        '{"items":[],"metadata":7}',
        '{"items":[{"metadata":7}],"metadata":{"resourceVersion":"5"}}',
        '{"items":[{"a":1}',
        '{"items":[{"a":1},7],"metadata":{"resourceVersion":"5"}}',
        '{"items":[{"a":' + "[" * 300 + "]" * 300 + '}],"metadata":{"resourceVersion":"5"}}',
        '{"items":[{"a":' + "[" * 200_000,
        None,
    ],
    ids=range(10),
)
def test_a_listing_from_the_watch_cache_that_cannot_be_read_is_an_error(text: str | None) -> None:
    first = status(400, "BadRequest") if text is None else web.Response(text=text)
    with pytest.raises(KubernetesError):
        list_cached(first, {"items": [], "metadata": {"resourceVersion": "9"}})


@pytest.mark.parametrize("first", [status(504, "Timeout"), IN_MEMORY], ids=["late", "large"])
def test_a_listing_from_the_watch_cache_that_is_late_or_too_large_is_listed_in_pages_and_logged(
    first: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(collection_pages, "LARGEST_CACHED", 100)
    last = {"items": [QUOTA], "metadata": {"resourceVersion": "9"}}
    listing, requests = list_cached(first, last)
    assert (len(listing.items), listing.resource_version) == (1, "9")
    assert requests == [CACHED, {"limit": "9"}]
    assert "listed in pages instead: list clientquotas" in caplog.text


@pytest.mark.parametrize("page", [{}, {"items": {}, "metadata": {}}, {"items": [], "metadata": 1}])
def test_a_response_that_is_not_a_list_is_not_an_empty_one(page: Any) -> None:
    async def story() -> None:
        async with world_with(lambda _: page) as world:
            with pytest.raises(KubernetesError, match="no listing"):
                await world.api.list(resource_paths.CLIENT_QUOTAS)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", KubernetesConflict),
        (410, "Gone", Gone),
        (422, "Invalid", KubernetesError),
        (401, "Unauthorized", KubernetesError),
        (307, "", KubernetesError),
    ],
)
def test_a_refusal_is_an_error_of_its_kind_with_the_message_of_the_server(
    code: int, reason: str, kind: type[KubernetesError]
) -> None:
    async def story() -> None:
        async with world_with(lambda _: status(code, reason, "because\nof this")) as world:
            with pytest.raises(KubernetesError) as caught:
                await world.api.get(resource_paths.CLIENT_QUOTAS, "n", "a")
        assert type(caught.value) is kind
        assert (caught.value.status, caught.value.reason) == (code, reason)
        assert str(caught.value) == "get clientquotas n/a: because of this"
        assert len(world.server.requests) == 1

    asyncio.run(story())


def test_the_page_of_a_proxy_is_never_quoted() -> None:
    async def story() -> None:
        page = web.Response(status=403, text="<html>Bearer t0ken-planted</html>")
        async with world_with(lambda _: page) as world:
            with pytest.raises(Forbidden) as caught:
                await world.api.get(resource_paths.SECRETS, "n", "a")
        assert str(caught.value) == "get secrets n/a: the API server answered 403"

    asyncio.run(story())


@pytest.mark.parametrize("code", [429, 500, 503, 504])
def test_a_request_to_a_busy_server_is_retried_after_the_requested_time(code: int) -> None:
    async def story() -> None:
        answers = one_after_the_other(
            status(code, "TooManyRequests", **{"Retry-After": "3"}), status(code, "x"), QUOTA
        )
        async with world_with(answers) as world:
            await world.api.get(resource_paths.CLIENT_QUOTAS, "n", "a")
        assert world.clock.slept == [3.0, 0.5]
        assert [report[2] for report in world.reports] == [str(code), str(code), "200"]

    asyncio.run(story())


def test_the_wait_requested_by_a_server_is_limited() -> None:
    async def story() -> None:
        answers = one_after_the_other(status(429, "x", **{"Retry-After": "86400"}), QUOTA)
        async with world_with(answers) as world:
            await world.api.get(resource_paths.CLIENT_QUOTAS, "n", "a")
        assert world.clock.slept == [10.0]

    asyncio.run(story())


def test_the_number_of_tries_is_limited() -> None:
    async def story() -> None:
        async with world_with(
            lambda _: status(503, "x"), patience=RequestTimeouts(tries=3)
        ) as world:
            with pytest.raises(KubernetesUnavailable) as caught:
                await world.api.get(resource_paths.CLIENT_QUOTAS, "n", "a")
        assert caught.value.retriable
        assert len(world.server.requests) == 3

    asyncio.run(story())


def test_a_hung_server_costs_the_timeout_of_one_try() -> None:
    async def story() -> None:
        patience = RequestTimeouts(seconds=0.05, tries=2)
        async with world_with(lambda _: "hang", patience=patience) as world:
            with pytest.raises(KubernetesUnavailable, match=r"no answer within 0\.05 s"):
                await world.api.get(resource_paths.CLIENT_QUOTAS, "n", "a")
        assert world.reports == [("get", "clientquotas", "timeout")] * 2

    asyncio.run(story())


def test_an_unreachable_server_is_reported_as_unavailable() -> None:
    async def story() -> None:
        async with world_with(lambda _: QUOTA) as world:
            await world.server.__aexit__()
            with pytest.raises(KubernetesUnavailable, match="no answer: "):
                await world.api.get(resource_paths.CLIENT_QUOTAS, "n", "a")
        assert world.reports[-1] == ("get", "clientquotas", "unreachable")

    asyncio.run(story())


def test_a_creation_that_may_have_been_executed_is_not_repeated() -> None:
    async def story() -> None:
        async with world_with(lambda _: status(504, "Timeout")) as world:
            with pytest.raises(KubernetesUnavailable):
                await world.api.create(resource_paths.CONFIG_MAPS, "n", {"metadata": {"name": "a"}})
        assert len(world.server.requests) == 1

    asyncio.run(story())


def test_a_creation_that_was_rejected_before_its_execution_is_repeated() -> None:
    async def story() -> None:
        async with world_with(one_after_the_other(status(429, "x"), {})) as world:
            await world.api.create(resource_paths.CONFIG_MAPS, "n", {"metadata": {"name": "a"}})
        assert [request.method for request in world.server.requests] == ["POST", "POST"]

    asyncio.run(story())


@pytest.mark.parametrize(("first", "tries"), [("test", 4), ("add", 1)])
def test_a_patch_is_repeated_only_if_it_tests_a_value(first: str, tries: int) -> None:
    async def story() -> None:
        async with world_with(lambda _: status(500, "x")) as world:
            with pytest.raises(KubernetesUnavailable):
                await world.api.patch_json(
                    resource_paths.CLIENT_QUOTAS,
                    "n",
                    "a",
                    [{"op": first, "path": "/x", "value": 1}],
                )
        assert len(world.server.requests) == tries
        assert world.server.requests[0].headers["Content-Type"] == "application/json-patch+json"

    asyncio.run(story())


def test_a_replacement_requires_a_resource_version() -> None:
    async def story() -> None:
        async with world_with(lambda _: {}) as world:
            with pytest.raises(ValueError, match="resourceVersion"):
                await world.api.replace(resource_paths.CONFIG_MAPS, "n", "a", {"metadata": {}})
            await world.api.replace(
                resource_paths.CONFIG_MAPS, "n", "a", {"metadata": {"resourceVersion": "1"}}
            )
        assert [request.method for request in world.server.requests] == ["PUT"]

    asyncio.run(story())


def test_a_status_is_applied_to_its_subresource_by_its_field_manager() -> None:
    async def story() -> None:
        async with world_with(lambda _: QUOTA) as world:
            body = {"status": {"x": "ä"}}
            await world.api.apply_status(resource_paths.CLIENT_QUOTAS, "n", "a", body)
        (request,) = world.server.requests
        assert request.path.endswith("/clientquotas/a/status")
        assert request.query == {"fieldManager": FIELD_MANAGER, "force": "true"}
        assert request.headers["Content-Type"] == "application/apply-patch+yaml"
        assert request.json == body
        assert world.reports == [("apply", "clientquotas/status", "200")]

    asyncio.run(story())


def test_every_write_of_the_operator_has_one_field_manager() -> None:
    async def story() -> None:
        async with world_with(lambda _: QUOTA) as world:
            body = {"metadata": {"name": "a", "resourceVersion": "1"}}
            _ = await world.api.create(resource_paths.CONFIG_MAPS, "n", body)
            _ = await world.api.replace(resource_paths.CONFIG_MAPS, "n", "a", body)
            _ = await world.api.patch_json(resource_paths.CLIENT_QUOTAS, "n", "a", [])
        queries = [request.query for request in world.server.requests]
        assert queries == [{"fieldManager": "kafka-quota-reconciler"}] * 3

    asyncio.run(story())


def test_credentials_that_cannot_be_read_at_present_are_an_outage() -> None:
    tokens = iter(["", "Bearer second"])

    async def authorization() -> str:
        if token := next(tokens):
            return token
        raise ConfigError("the token is empty")

    async def story() -> None:
        async with world_with(lambda _: QUOTA, authorization=authorization) as world:
            with pytest.raises(KubernetesUnavailable, match="the token is empty"):
                await world.api.get(resource_paths.CLIENT_QUOTAS, "n", "a")
            obj = await world.api.get(resource_paths.CLIENT_QUOTAS, "n", "a")
        assert obj["metadata"]["name"] == "a"

    asyncio.run(story())


def test_a_redirect_is_not_followed_because_it_would_send_the_token_elsewhere() -> None:
    async def story() -> None:
        moved = web.Response(status=302, headers={"Location": "http://192.0.2.1/"})
        async with world_with(lambda _: moved) as world:
            with pytest.raises(KubernetesError):
                await world.api.get(resource_paths.CLIENT_QUOTAS, "n", "a")
        assert len(world.server.requests) == 1

    asyncio.run(story())


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b"\xff"])
def test_a_response_that_is_not_an_object_is_an_error(body: bytes) -> None:
    async def story() -> None:
        async with world_with(lambda _: web.Response(body=body)) as world:
            with pytest.raises(KubernetesError, match="no JSON object"):
                await world.api.get(resource_paths.CLIENT_QUOTAS, "n", "a")

    asyncio.run(story())


def test_neither_token_nor_body_is_in_logs_errors_or_texts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    secret = {"metadata": {"name": "a"}, "data": {"password": "cGxhbnRlZC1wYXNzd29yZA=="}}

    async def story() -> list[str]:
        texts = []
        for answers in (
            one_after_the_other(status(401, "x"), status(422, "Invalid", "no")),
            one_after_the_other(web.Response(status=500, text="planted-password")),
            lambda _: "hang",
        ):
            async with world_with(
                answers, patience=RequestTimeouts(seconds=0.05, tries=1)
            ) as world:
                for call in (
                    world.api.get(resource_paths.SECRETS, "n", "a"),
                    world.api.create(resource_paths.SECRETS, "n", secret),
                ):
                    try:
                        await call
                    except KubernetesError as error:
                        texts += [repr(error), str(error), error.hint]
                    except Exception as error:  # noqa: BLE001 - the iterator of answers ended
                        texts.append(repr(error))
                texts += [repr(world.api), repr(world.server.access())]
        return texts

    with caplog.at_level(logging.DEBUG):
        texts = asyncio.run(story())
    everything = "\n".join([*texts, caplog.text])
    for planted in ("t0ken-planted", "cGxhbnRlZC1wYXNzd29yZA", "planted-password"):
        assert planted not in everything
