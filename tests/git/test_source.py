"""Addresses of repositories: the form for git, the form for people, and the separate password."""

import base64
from pathlib import Path

import pytest

from reconciler.errors import GitError
from reconciler.git.mirror import GitSource

HERE = Path()


@pytest.mark.parametrize(
    "text",
    [
        "https://git.example.org/a/b.git",
        "ssh://git@git.example.org/a/b.git",
        "git@git.example.org:a/b.git",
        "git.example.org:a/b.git",
        "file:///srv/quotas.git",
    ],
)
def test_addresses_without_a_password_are_used_unchanged(text: str):
    assert GitSource.of(text, start=HERE) == GitSource(address=text)


def test_a_folder_is_relative_to_the_working_directory(tmp_path: Path):
    (tmp_path / "quotas").mkdir()
    assert GitSource.of("quotas", start=tmp_path).address == str(tmp_path / "quotas")
    (tmp_path / "a:b").mkdir()
    assert GitSource.of("a:b", start=tmp_path).address == str(tmp_path / "a:b")


def test_a_password_of_a_url_becomes_a_header_for_that_host_alone():
    source = GitSource.of("https://bot:s3%2Fcret@git.example.org:8443/a.git", start=HERE)
    assert source.address == "https://git.example.org:8443/a.git"
    assert source.variables == {
        "http.https://git.example.org:8443/.extraHeader": "Authorization: Basic "
        + base64.b64encode(b"bot:s3/cret").decode()
    }
    assert "s3" not in repr(source)


def test_a_token_without_a_user_name_is_a_secret_too():
    source = GitSource.of("https://ghp_token@git.example.org/a.git", start=HERE)
    assert source.address == "https://git.example.org/a.git"
    assert "ghp_token" not in repr(source)
    assert source.variables


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-upload-pack=rm",
        "--help",
        "two\nlines",
        "ext::sh -c id",
        "fd::17/foo",
        "ext+x://whatever",
        "ftp://git.example.org/a.git",
        "http://bot:secret@git.example.org/a.git",
        "ssh://git:secret@git.example.org/a.git",
        "no/such/folder",
    ],
)
def test_malformed_leaking_and_executing_addresses_are_refused(text: str):
    with pytest.raises(GitError) as caught:
        GitSource.of(text, start=HERE)
    assert "secret" not in str(caught.value)
