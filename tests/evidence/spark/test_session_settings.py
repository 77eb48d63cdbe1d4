"""Settings of a session that exclude each other are refused before Spark starts."""

import pytest

from reconciler.errors import ConfigError
from reconciler.evidence.spark.session_settings import SessionSettings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"master": "local", "remote": "sc://x"}, "not both"),
        ({"remote": "x:15002"}, "not the address of a Spark Connect server"),
        ({"memory": "much"}, "not an amount of memory"),
        ({"remote": "sc://x", "memory": "1g"}, "set where it is started"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        SessionSettings(**settings)
    assert caught.value.key in {"remote", "memory"}
