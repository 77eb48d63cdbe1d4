"""`make dist`: equal bytes from two folders, and a wheel that an empty environment installs with each extra."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler import __version__
from reconciler.base.installation import WHEEL, install_commands, install_hint
from tests.packaging import wheels
from tests.servers import jars
from tests.servers.processes import HANG_SECONDS

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
SOURCES = (
    "Makefile",
    "pyproject.toml",
    "constraints.txt",
    "README.md",
    "LICENSE",
    ".gitignore",
    ".ci",
    "reconciler",
)
EPOCH = "1700000000"
PROXY = "proxy.url=socks5://127.0.0.1:1\n"


@dataclass(frozen=True, slots=True)
class Use:
    """A command of an extra that needs no server."""

    command: str  # `kquota` is that of the environment
    code: int  # its exit code if the extra is installed
    output: str  # its output then


USES = {
    "http": Use("kquota post github missing.json --label prod", 1, "missing.json cannot be read"),
    "watch": Use(
        "kquota watch repository --state-dir state --metrics-address 192.0.2.1:1",
        1,
        "cannot listen on 192.0.2.1:1",
    ),
    "usage": Use("kquota usage files usage_sample --lake .", 0, ""),
    "spark": Use(
        "kquota usage show --lake . --cluster-id abc --engine spark",
        0,
        "the lake has no samples of this cluster in the window",
    ),
    "operator": Use(
        "kquota operator release --all --kubeconfig missing --operator-namespace kafka-quotas",
        1,
        "the kubeconfig cannot be used",
    ),
    "keystores": Use(
        "kquota describe --bootstrap-server 127.0.0.1:1 --command-config keystore.properties",
        1,
        "the password is wrong or the file is damaged",
    ),
    "msk": Use(
        "kquota describe --bootstrap-server 127.0.0.1:1 --command-config msk.properties --timeout 2s",
        1,
        "set AWS_REGION",
    ),
    "proxy": Use(
        "kquota describe --bootstrap-server 127.0.0.1:1 --command-config proxy.properties --timeout 2s",
        1,
        "127.0.0.1:1",
    ),
}
"""Each extra with a command that needs it."""


def checkout(folder: Path) -> Path:
    """A copy of the sources of the distribution, without git and with other times."""
    for name in SOURCES:
        source, target = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(
                source,
                target,
                ignore=shutil.ignore_patterns("__pycache__"),
                copy_function=shutil.copy,
            )
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    return folder


def built(folder: Path, tools: Path, *, umask: int) -> Path:
    """The wheel of `make dist` in a new checkout."""
    previous = os.umask(umask)
    try:
        checkout(folder)
        answer = subprocess.run(
            ["make", "dist", f"PYTHON={sys.executable}", f"DIST={tools}"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG_SECONDS,
            env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH},
        )
    finally:
        os.umask(previous)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return folder / "dist" / WHEEL


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("dist")
    return built(top / "checkout", top / "tools", umask=0o022)


def test_two_folders_build_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    tools = wheel.parents[2] / "tools"
    other_path = built(tmp_path / "elsewhere", tools, umask=0o077)
    digests = {hashlib.sha256(path.read_bytes()).hexdigest() for path in (wheel, other_path)}
    assert len(digests) == 1


class Environment:
    """An empty virtual environment for commands."""

    def __init__(self, folder: Path) -> None:
        """Create it; the pip of the build tools installs packages here."""
        words = (sys.executable, "-I", "-m", "venv", "--without-pip", str(folder))
        subprocess.run(words, check=True)
        self._programs = folder / "bin"
        pip = self._programs / "pip"
        python = self._programs / "python"
        pip.write_text(
            f'#!/bin/sh\nexec {wheels.build_tools()} -I -m pip --python {python} "$@"\n',
            encoding="utf-8",
        )
        pip.chmod(0o755)

    def run(
        self, *words: str, folder: Path, variables: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """The result of a command; both streams are in `stdout`."""
        keep = {name: os.environ[name] for name in ("JAVA_HOME", "LANG") if name in os.environ}
        environment = {
            **keep,
            "PATH": f"{self._programs}:{os.environ['PATH']}",
            "HOME": str(folder),
            "COLUMNS": "200",
            **(variables or {}),
        }
        return subprocess.run(
            words,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=HANG_SECONDS,
            stdin=subprocess.DEVNULL,
        )

    def install(self, command: str, *, folder: Path, wheel_folder: Path) -> None:
        """Run an install command; only the locked wheels are available."""
        answer = self.run(
            "bash", "-c", command, folder=folder, variables=wheels.offline(wheel_folder)
        )
        assert answer.returncode == 0, answer.stdout


def prepare(folder: Path) -> Path:
    """Write the input files of the commands of `USES`."""
    (folder / "lake").mkdir()
    subprocess.run(["git", "init", "--quiet", str(folder / "repository")], check=True)
    (folder / "proxy.properties").write_text(PROXY, encoding="utf-8")
    (folder / "store.p12").write_bytes(b"0damaged")
    (folder / "keystore.properties").write_text(
        "security.protocol=SSL\nssl.truststore.type=PKCS12\nssl.truststore.location=store.p12\n"
        "ssl.truststore.password=secret\n",
        encoding="utf-8",
    )
    (folder / "msk.properties").write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=AWS_MSK_IAM\n"
        'sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required awsRegion="eu-west-1";\n',
        encoding="utf-8",
    )
    return folder


def test_the_base_install_names_a_command_for_each_extra_and_a_checkout_installs_one(
    wheel: Path, tmp_path: Path
) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install(
        f"pip install {wheel}", folder=tmp_path, wheel_folder=wheels.wheel_folder("")
    )
    version = environment.run("kquota", "--version", folder=tmp_path)
    assert version.stdout == f"kquota {__version__}\n"
    assert environment.run("kafka-client-quotas", "--help", folder=tmp_path).returncode == 0
    place = prepare(tmp_path)
    for extra, use in USES.items():
        answer = environment.run(*use.command.split(), folder=place)
        assert answer.returncode == 1, answer.stdout
        text = " ".join(answer.stdout.split())
        # Spark is needed after what every analysis needs.
        assert install_hint("usage" if extra == "spark" else extra) in text
    from_checkout, _ = install_commands("http")
    folder = wheels.wheel_folder("http")
    environment.install(from_checkout, folder=wheel.parents[1], wheel_folder=folder)
    answer = environment.run(*USES["http"].command.split(), folder=place)
    assert USES["http"].output in answer.stdout, answer.stdout


def test_the_library_is_complete_with_msgspec_and_no_other_package(
    wheel: Path, tmp_path: Path
) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install(
        f"pip install --no-deps {wheel} msgspec",
        folder=tmp_path,
        wheel_folder=wheels.wheel_folder(""),
    )
    program = (
        "from reconciler.kafka import ClientConfig, ClientError, SyncQuotaClient\n"
        "config = ClientConfig.from_mapping({'bootstrap.servers': '127.0.0.1:1'})\n"
        "with SyncQuotaClient(config) as client:\n"
        "    try:\n        client.describe(timeout=0.5)\n"
        "    except ClientError as error:\n        print(error)\n"
    )
    answer = environment.run("python", "-c", program, folder=tmp_path)
    assert (answer.returncode, "refused" in answer.stdout) == (0, True), answer.stdout
    for name in ("kquota", "kafka-client-quotas"):
        command = environment.run(name, "--help", folder=tmp_path)
        assert (command.returncode, "the Python module click is missing" in command.stdout) == (
            1,
            True,
        ), command.stdout


@pytest.mark.parametrize("extra", USES)
def test_an_extra_is_installed_by_the_command_beside_the_wheel(
    extra: str, wheel: Path, tmp_path: Path
) -> None:
    folder = wheels.wheel_folder(extra)
    _, from_wheel = install_commands(extra)
    environment = Environment(tmp_path / "environment")
    environment.install(from_wheel, folder=wheel.parent, wheel_folder=folder)
    use = USES[extra]
    answer = environment.run(*use.command.split(), folder=prepare(tmp_path))
    assert (answer.returncode, use.output in answer.stdout) == (use.code, True), answer.stdout
    assert environment.run("pip", "check", folder=tmp_path).returncode == 0


def test_every_extra_has_a_command() -> None:
    locks = {path.stem for path in wheels.LOCKS.glob("*.txt")}
    of_contributors = {"bench", "build", "dev", "lock", "site", "spark-image"}
    assert set(USES) == locks - of_contributors - {"base"}
    assert jars.program("make", "make")
