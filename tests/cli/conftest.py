"""Fixtures of the command line's tests: a sandbox, an empty working folder, a function to run a command."""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.cli import client_quotas, main
from tests.cli.brokers import SandboxThread
from tests.cli.command_tree import check_hints
from tests.cli.projects import project, quota


@dataclass(frozen=True)
class Ran:
    """The result of one command line."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An empty working directory, without variables of CI and colour."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "CI",
        "KQUOTA_DEBUG",
        "GITHUB_ACTOR",
        "NO_COLOR",
        "FORCE_COLOR",
    ):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def sandbox() -> Iterator[SandboxThread]:
    with SandboxThread() as running:
        yield running


@pytest.fixture
def kquota(capsys, monkeypatch, folder) -> Run:
    """`kquota("plan", "--all", stdin="…")`; hints must name existing options."""

    def run(*arguments: str, stdin: str = "") -> Ran:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        words = [str(argument) for argument in arguments]
        ran = Ran(main.main(words), *capsys.readouterr())
        check_hints(words, ran.err)
        return ran

    return run


@pytest.fixture
def kip(capsys, sandbox, folder) -> Run:
    """`kip("--describe")`: kafka-client-quotas at the sandbox."""

    def run(*arguments: str) -> Ran:
        capsys.readouterr()
        code = client_quotas.main(["--bootstrap-server", sandbox.bootstrap, *arguments])
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def prod(folder, sandbox) -> Path:
    """A project with two documents for the sandbox."""
    project(folder, sandbox.bootstrap, quota("a"), quota("b", "{consumerByteRate: 20Mi}"))
    return folder


@pytest.fixture
def applied(kquota, folder, sandbox) -> Path:
    """A project with one document, applied."""
    project(folder, sandbox.bootstrap, quota("a"))
    assert kquota("apply", "--yes").code == 0
    return folder
