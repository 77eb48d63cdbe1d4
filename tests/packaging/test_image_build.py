"""The image as in docs/operate.md, without a Docker engine: buildah executes the Dockerfile, umoci reads the result."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

import reconciler
from tests.charts.chart_renderer import container, rendered
from tests.servers import jars
from tests.servers.jars import ServersUnavailable
from tests.servers.processes import HANG_SECONDS, ScratchFolder

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")
USER = "65532:65532"
REVISION = "0123456789abcdef0123456789abcdef01234567"
"""A commit, in the form of the page's first section."""
EXAMPLES = "tmp/examples"
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
PROGRAMS = ("buildah", "mmdebstrap", "umoci")


def offline_commands() -> list[str]:
    """The commands of the section about places without a registry."""
    (section,) = re.findall(r"## Where no registry.*?```console\n(.*?)```", PAGE, re.DOTALL)
    return [line.removeprefix("$ ") for line in section.splitlines()]


def typed(script: str, folder: Path, **environment: str) -> str:
    """The output of a shell script, started in the checkout."""
    answer = subprocess.run(
        ["bash", "-euc", script],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
        env={**os.environ, **environment},
    )
    assert answer.returncode == 0, f"{script}\n{answer.stdout[-2000:]}{answer.stderr[-2000:]}"
    return answer.stdout


def base_image() -> Path:
    """The root file system of the page's first command; cached, or raise ServersUnavailable."""
    command = offline_commands()[0]

    def fill(folder: Path) -> None:
        folder.chmod(0o755)
        answer = subprocess.run(
            command.split(),
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG_SECONDS,
        )
        if answer.returncode != 0:
            raise ServersUnavailable(f"mmdebstrap failed: {answer.stderr[-400:]}")

    return jars.cached(f"base-image-{jars.digest(command)}", fill) / "base.tar"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """An image in OCI layout."""

    folder: Path
    root: Path  # the root file system that umoci unpacked

    @property
    def digest(self) -> str:
        """The digest of its manifest."""
        index = json.loads((self.folder / "index.json").read_text(encoding="utf-8"))
        (manifest,) = index["manifests"]
        return str(manifest["digest"])

    def blob(self, digest: str) -> Any:
        """A JSON document of the layout."""
        algorithm, _, name = digest.partition(":")
        return json.loads((self.folder / "blobs" / algorithm / name).read_text(encoding="utf-8"))

    @property
    def config(self) -> dict[str, Any]:
        """The configuration of a container of the image."""
        config: dict[str, Any] = self.blob(self.blob(self.digest)["config"]["digest"])["config"]
        return config

    def run(self, *arguments: str, program: str = "kquota", **more: str) -> str:
        """The output of a program in the file system of the image, run as the user of the image."""
        variables = dict(line.split("=", 1) for line in self.config["Env"]) | more
        chroot = jars.program("chroot", "coreutils")
        answer = subprocess.run(
            [chroot, f"--userspec={self.config['User']}", str(self.root), program, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG_SECONDS,
            env=variables,
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout


@pytest.fixture(scope="module")
def layout() -> Iterator[Layout]:
    """The image of the page's commands, with separate storage."""
    for name in PROGRAMS:
        jars.program(name, f"Debian's package {name}")
    if os.geteuid() != 0:
        raise ServersUnavailable("the file system of an image is entered with chroot: run as root")
    with ScratchFolder.make("image-build-") as scratch:
        checkout = scratch / "checkout"
        checkout.mkdir()
        for name in (
            "Dockerfile",
            ".dockerignore",
            "pyproject.toml",
            "README.md",
            "LICENSE",
            ".ci",
            "reconciler",
        ):
            source = ROOT / name
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, checkout / name)
        (checkout / "base.tar").symlink_to(base_image())
        storage = scratch / "storage.conf"
        storage.write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{scratch}/root"\nrunroot = "{scratch}/run"\n',
            encoding="utf-8",
        )
        script = "\n".join(offline_commands()[1:])
        script = script.replace(" base.tar ", " $(realpath base.tar) ")
        build_argument = f"--build-arg REVISION={REVISION}"
        script = script.replace("buildah build ", f"buildah build {build_argument} ")
        if AUTHORITIES.exists():
            script = script.replace(
                "buildah build ", f"buildah build --volume {AUTHORITIES}:{AUTHORITIES}:ro "
            )
        typed(script, checkout, CONTAINERS_STORAGE_CONF=str(storage), TMPDIR=str(scratch))
        image_folder = checkout / "kafka-quota-reconciler"
        bundle = scratch / "bundle"
        typed(f"umoci unpack --image {image_folder}:{reconciler.__version__} {bundle}", scratch)
        yield Layout(folder=image_folder, root=bundle / "rootfs")


def test_kquota_runs_in_the_file_system_of_the_image_as_its_user(layout: Layout) -> None:
    assert layout.run("--version") == f"kquota {reconciler.__version__}\n"
    assert "--leader-elect" in layout.run("operator", "--help")
    assert (layout.config["User"], layout.config["Entrypoint"]) == (USER, ["kquota"])
    assert "kquota plan --cluster prod" in layout.run(*layout.config["Cmd"])


def test_every_module_of_the_operator_can_be_imported(layout: Layout) -> None:
    modules = "aiohttp, cryptography, kopf, kubernetes, prometheus_client, yaml, reconciler.kube, reconciler.app.loop"
    words = ("-I", "-W", "error", "-c", f"import {modules}")
    assert layout.run(*words, program="/opt/kquota/bin/python") == ""


def test_offline_commands_run_as_a_user_without_other_write_permissions(layout: Layout) -> None:
    shutil.copytree(ROOT / "examples", layout.root / EXAMPLES)
    variables = {
        "KQUOTA_DEMO_BOOTSTRAP": "a:1",
        "ANALYTICS_BOOTSTRAP": "b:1",
        "ANALYTICS_PASSWORD": "c",
    }
    arguments = ("validate", "--all", "--project", f"/{EXAMPLES}/kquota.yaml")
    assert layout.run(*arguments, **variables)
    files = [path for path in (layout.root / "opt").rglob("*") if not path.is_symlink()]
    assert [path for path in files if path.stat().st_mode & 0o022 or path.stat().st_uid] == []


def test_the_versions_in_the_image_are_the_tested_ones(layout: Layout) -> None:
    pinned = dict(
        line.lower().replace("_", "-").split("==")
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    )
    installed = {
        re.sub(r"[._]", "-", match["name"].lower()): match["version"]
        for path in layout.root.glob("opt/kquota/lib/python*/site-packages/*.dist-info")
        if (match := re.match(r"(?P<name>.+)-(?P<version>[^-]+)\.dist-info$", path.name))
    }
    assert installed.pop("kafka-quota-reconciler") == reconciler.__version__
    assert "pip" not in installed
    assert {
        name: version for name, version in installed.items() if pinned.get(name) != version
    } == {}


def test_the_image_has_labels_and_no_pip(layout: Layout) -> None:
    labels = layout.config["Labels"]
    assert labels["org.opencontainers.image.version"] == reconciler.__version__
    assert labels["org.opencontainers.image.revision"] == REVISION
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert list((layout.root / "opt" / "kquota" / "bin").glob("pip*")) == []


def test_the_values_of_the_page_name_the_image_by_its_digest(
    layout: Layout, tmp_path: Path
) -> None:
    (text,) = re.findall(r"```yaml\n(image:.*?)```", PAGE, re.DOTALL)
    values = yaml.safe_load(text)
    values["image"]["digest"] = layout.digest
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    image = container(rendered("--values", str(tmp_path / "values.yaml")))["image"]
    assert image == f"{values['image']['repository']}:{reconciler.__version__}@{layout.digest}"
