"""The locks of .ci/locks: one for each extra, with hashes, the tested versions, and no address of an index."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / ".ci" / "locks"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
FILES = sorted(LOCKS.glob("*.txt"))
OTHER_VERSION = {("msk.txt", "python-dateutil"), ("dev.txt", "colorama")}
"""botocore, which AWS's signer needs, excludes the version that kubernetes needs; colorama is for Windows alone."""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(path: Path) -> dict[str, str]:
    matches = re.findall(
        r"^([A-Za-z0-9._-]+)==([^\s;]+)", path.read_text(encoding="utf-8"), re.MULTILINE
    )
    return {normal(name): version for name, version in matches}


TESTED = pins(ROOT / "constraints.txt")


def test_every_extra_has_a_lock_and_every_lock_an_extra() -> None:
    assert {path.stem for path in FILES} == {
        *(*EXTRAS, "base", "spark-image"),
        *("build", "dev", "bench", "lock", "site"),
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_line_of_a_lock_is_a_pin_or_a_hash(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    requirements = [number for number, line in enumerate(lines) if "==" in line.split(";")[0]]
    assert requirements
    for number, line in enumerate(lines):
        if number in requirements:
            assert line.endswith(" \\")
            assert re.fullmatch(r" {4}--hash=sha256:[0-9a-f]{64}( \\)?", lines[number + 1])
        else:
            assert re.fullmatch(r"#.*| {4}--hash=sha256:[0-9a-f]{64}( \\)?", line)
        assert "://" not in line


@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_a_lock_contains_the_requirements_of_its_extra(extra: str) -> None:
    requirements = [*PROJECT["project"]["dependencies"], *EXTRAS.get(extra, ())]
    names = {normal(re.split(r"[^A-Za-z0-9._-]", line)[0]) for line in requirements}
    assert names <= pins(LOCKS / f"{extra or 'base'}.txt").keys()


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if path.stem not in {"build", "bench", "lock", "site"}],
    ids=lambda path: path.name,
)
def test_a_locked_version_is_the_tested_one(path: Path) -> None:
    different = {
        name: version
        for name, version in pins(path).items()
        if TESTED.get(name) != version and (path.name, name) not in OTHER_VERSION
    }
    assert different == {}


def test_what_make_installs_is_compared_with_hashes() -> None:
    lines = (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
    unlocked = [
        line
        for line in lines
        if "pip install" in line and not re.search(r"--require-hashes|--no-index|##", line)
    ]
    (newest,) = unlocked
    assert newest.endswith("--upgrade kopf")  # the target tests the newest release


def test_the_build_backend_and_the_build_tools_are_the_locked_ones() -> None:
    locked = pins(LOCKS / "build.txt")
    (backend,) = PROJECT["build-system"]["requires"]
    name, _, version = backend.partition("==")
    assert locked[name] == version
    for line in PROJECT["dependency-groups"]["build"]:
        name, _, version = line.partition("==")
        assert locked[name] == version


def test_every_external_download_of_an_image_has_a_checksum() -> None:
    for path in [ROOT / "Dockerfile", *(ROOT / "examples").rglob("Dockerfile")]:
        text = path.read_text(encoding="utf-8").replace("\\\n", " ")
        for line in re.findall(r"^ADD .*", text, re.MULTILINE):
            assert re.match(r"ADD --checksum=sha256:[0-9a-f]{64} +https://", line)


def test_the_image_of_the_spark_example_gets_the_files_that_it_copies() -> None:
    folder = ROOT / "examples" / "spark"
    copied = re.findall(r"^COPY (\S+)", (folder / "Dockerfile").read_text(), re.MULTILINE)
    allowed = (folder / "Dockerfile.dockerignore").read_text().split()
    assert allowed == ["*", *(f"!{name}" for name in copied)]
    assert {"pyspark", "py4j"}.isdisjoint(pins(LOCKS / "spark-image.txt"))
