"""A verdict of the API server: which responses are none."""

import ssl

from tests.kube.crds.judging import dry_run
from tests.servers.kube.api import Answer, Api


class ScriptedApi(Api):
    """Responds with these statuses, in order."""

    def __init__(self, *statuses: int) -> None:
        super().__init__("https://127.0.0.1:1", ssl.create_default_context())
        self.statuses = list(statuses)

    def call(self, *_: object, **__: object) -> Answer:
        return Answer(status=self.statuses.pop(0), text="")


def test_a_dry_run_that_the_server_ended_is_repeated_until_there_is_a_verdict() -> None:
    api = ScriptedApi(504, 504, 422, 201)
    assert dry_run(api, {"kind": "QuotaCluster"}).status == 422
    assert api.statuses == [201]


def test_a_dry_run_that_the_server_always_ends_has_no_verdict() -> None:
    api = ScriptedApi(504, 504, 504)
    assert dry_run(api, {"kind": "QuotaCluster"}, attempts=3).status == 504
    assert api.statuses == []
