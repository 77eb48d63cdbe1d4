"""Tests of jars: resolved once, completely or not at all; a missing program is in the message."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.servers import jars
from tests.servers.processes import HANG_SECONDS


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KQUOTA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KQUOTA_CACHE", "/a")
    assert jars.cache_root() == Path("/a")
    monkeypatch.delenv("KQUOTA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    assert jars.cache_root() == Path("/b/kafka-quota-reconciler")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/c")
    assert jars.cache_root() == Path("/c/.cache/kafka-quota-reconciler")


@pytest.mark.parametrize("version", jars.VERSIONS)
def test_each_pom_pins_its_version(version: str) -> None:
    assert f"<version>{version}</version>" in jars.pom(version)
    assert ("kafka-tools-api" in jars.pom(version)) is (version == "4.4.0")


def test_an_unknown_version_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"2\.8\.0 is not one of 3\.4\.1, "):
        jars.pom("2.8.0")


def test_a_folder_is_filled_once(cache: Path) -> None:
    filled: list[Path] = []

    def fill(folder: Path) -> None:
        filled.append(folder)
        (folder / "whole").touch()

    assert jars.cached("it", fill) == jars.cached("it", fill) == cache / "it"
    assert (cache / "it" / "whole").exists()
    assert len(filled) == 1


def test_a_failed_filling_leaves_no_folder(cache: Path) -> None:
    def fill(folder: Path) -> None:
        (folder / "half").touch()
        raise jars.ServersUnavailable("no network")

    with pytest.raises(jars.ServersUnavailable, match="no network"):
        jars.cached("it", fill)
    assert [path.name for path in cache.iterdir()] == ["it.lock"]
    assert jars.cached("it", lambda folder: (folder / "whole").touch()).is_dir()


def test_a_second_process_waits_for_the_first(cache: Path) -> None:
    order: list[str] = []
    started, go_on = threading.Event(), threading.Event()

    def slow(folder: Path) -> None:
        started.set()
        go_on.wait(HANG_SECONDS)
        order.append("first")

    first = threading.Thread(target=jars.cached, args=("it", slow))
    second = threading.Thread(target=jars.cached, args=("it", lambda _: order.append("second")))
    first.start()
    assert started.wait(HANG_SECONDS)
    second.start()
    go_on.set()
    first.join()
    second.join()
    assert order == ["first"]


def test_a_missing_program_is_named_with_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(jars.ServersUnavailable, match="`java` was not found: install a Java"):
        jars.java()
    with pytest.raises(jars.ServersUnavailable, match="install Maven, please"):
        jars.program("mvn", "Maven, please")


def test_an_older_java_is_refused(tmp_path: Path) -> None:
    old = tmp_path / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    old.chmod(0o755)
    check = "from tests.servers import jars; jars.java_identity()"
    answer = subprocess.run(
        [sys.executable, "-c", check],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "install Java 17 or newer" in answer.stderr


@pytest.mark.integration
@pytest.mark.parametrize("version", jars.VERSIONS)
def test_each_version_resolves_to_its_own_jars(version: str) -> None:
    product = jars.resolve(version)
    assert product.folder.parent == jars.cache_root()
    assert f"kafka-clients-{version}.jar" in product.classpath
    assert f"kafka_2.13-{version}.jar" in product.classpath
