"""The document of a failed command, as actions write it: strict reading."""

import pytest

from reconciler.codecs.failure import read_failure
from reconciler.errors import ConfigError
from reconciler.render.json_values import dump

DOCUMENT = {
    "kind": "kquota-failure",
    "format": 1,
    "command": "plan",
    "exitCode": 1,
    "messages": ["x"],
}


@pytest.mark.parametrize(
    "change",
    [
        {"command": "x"},
        {"messages": "x"},
        {"messages": [1]},
        {"exitCode": "1"},
        {"more": 1},
        {"format": 2},
    ],
)
def test_a_malformed_failure_is_refused(change):
    assert read_failure(dump(DOCUMENT), location="f").messages == ("x",)
    with pytest.raises(ConfigError):
        read_failure(dump(DOCUMENT | change), location="f")
