"""Programs that tests download are the pinned ones."""

import pytest

from tests.servers import prometheus
from tests.servers.jars import ServersUnavailable


def test_a_download_that_is_not_the_pinned_one_is_refused(tmp_path):
    file = tmp_path / "a.deb"
    file.write_bytes(b"something else")
    with pytest.raises(ServersUnavailable, match="is pinned"):
        prometheus.check(file, "0" * 64)
