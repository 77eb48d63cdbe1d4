"""A branch over https with a token: who receives the token, and the message if it is wrong."""

import asyncio
import base64
import http.server
import ssl
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from reconciler.errors import GitError
from reconciler.git.mirror import GitMirror, GitSource
from tests.git.commits import commit, git, repository
from tests.servers.certs import Authority

TOKEN = "s3cret-token"  # noqa: S105 - a test's token is no secret
EXPECTED = "Basic " + base64.b64encode(f"bot:{TOKEN}".encode()).decode()


class Guarded(http.server.SimpleHTTPRequestHandler):
    """The files of a repository, for clients with the token (git's dumb http protocol)."""

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        if self.headers.get("Authorization") == EXPECTED:
            super().do_GET()
            return
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="quotas"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    return repository(tmp_path / "origin")


@pytest.fixture
def server(tmp_path: Path, origin: Path, monkeypatch) -> Iterator[http.server.ThreadingHTTPServer]:
    authority = Authority.make(tmp_path / "ca")
    identity = authority.server("git")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.certificate, identity.key)
    handler = partial(Guarded, directory=str(origin))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        running.asked = []
        running.socket = context.wrap_socket(running.socket, server_side=True)
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        monkeypatch.setenv("GIT_SSL_CAINFO", str(authority.certificate_file))
        yield running
        running.shutdown()
        thread.join()


def mirror(tmp_path: Path, server: http.server.ThreadingHTTPServer, userinfo: str) -> GitMirror:
    url = f"https://{userinfo}127.0.0.1:{server.server_port}/.git"
    return GitMirror(
        folder=tmp_path / "mirror.git", source=GitSource.of(url, start=tmp_path), branch="main"
    )


def test_a_token_is_sent_to_its_server_only(tmp_path: Path, origin: Path, server):
    new_commit = commit(origin, {"a.yaml": "1"})
    git(origin, "update-server-info")
    git_mirror = mirror(tmp_path, server, f"bot:{TOKEN}@")
    assert asyncio.run(git_mirror.fetch()) == new_commit
    assert git_mirror.tree(new_commit).read(["a.yaml"]) == {"a.yaml": b"1"}
    assert {header for _, header in server.asked} == {EXPECTED}
    paths = [path for path in git_mirror.folder.rglob("*") if path.is_file()]
    assert paths
    assert not any(TOKEN.encode() in path.read_bytes() for path in paths)
    assert TOKEN not in git_mirror.display_name + repr(git_mirror)


@pytest.mark.parametrize("userinfo", ["", "bot:wrong-token@"])
def test_a_missing_or_wrong_token_is_reported_without_a_prompt_and_without_the_token(
    tmp_path: Path, origin: Path, server, userinfo: str
):
    commit(origin, {"a.yaml": "1"})
    git(origin, "update-server-info")
    with pytest.raises(GitError, match="git fetch failed") as caught:
        asyncio.run(mirror(tmp_path, server, userinfo).fetch())
    assert "wrong-token" not in str(caught.value)
    assert "127.0.0.1" in str(caught.value)


def test_an_untrusted_certificate_is_refused(tmp_path: Path, origin: Path, server, monkeypatch):
    monkeypatch.delenv("GIT_SSL_CAINFO")
    with pytest.raises(GitError, match=r"(?i)certificate"):
        asyncio.run(mirror(tmp_path, server, f"bot:{TOKEN}@").fetch())
    assert server.asked == []
