"""Fixtures of the tests of code hosts: a fake host that must record no complaint, and its client."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from reconciler.forge.github import GitHub, github
from reconciler.forge.rest_client import BOUNDS, forge_token
from tests.cli.brokers import SandboxThread
from tests.fakes.clock import FakeClock
from tests.forge.github_api import GitHubApi

SHA = "a" * 40


@pytest.fixture
def api() -> Iterator[GitHubApi]:
    """A fake GitHub that needs no network, with pull request 7."""
    with GitHubApi() as running:
        running.pull(7, sha=SHA)
        yield running
    assert running.complaints == []


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def at_github(api, clock) -> Callable[..., Any]:
    """`at_github(lambda host: host.own_name())`: the result of a coroutine with a client of the fake."""

    def run(
        work: Callable[[GitHub], Awaitable[Any]],
        *,
        who: str = "ghs_workflow",
        bounds=BOUNDS,
        **more,
    ) -> Any:
        async def inside() -> Any:
            async with github(
                api.url, forge_token(who), clock=clock, version="test", bounds=bounds
            ) as remaining_client:
                return await work(GitHub(remaining_client, api.repository, **more))

        return asyncio.run(inside())

    return run


@pytest.fixture
def sandbox() -> Iterator[SandboxThread]:
    with SandboxThread() as running:
        yield running
