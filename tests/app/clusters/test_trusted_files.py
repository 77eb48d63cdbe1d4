"""Every file that the trusted configuration names is of the trusted revision, or lies outside of the work tree."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

import pytest

from reconciler.app.clusters.trusted_files import TrustedFiles
from reconciler.client import ANYTHING, ClientConfig
from reconciler.client.configuration.keys import KEYS, ValueKind
from reconciler.client.configuration.references import AllowedReferences
from reconciler.errors import ConfigError
from reconciler.git.repository import Repository
from tests.git.commits import commit, git, repository
from tests.servers.certs import Authority

OIDC = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
    "sasl.oauthbearer.client.id": "i",
    "sasl.oauthbearer.client.secret": "s",
}
JAAS = 'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId="i" clientSecret="s" {}="FILE";'
SLOTS: dict[str, dict[str, str]] = {
    "ssl.truststore.location": {
        "security.protocol": "SSL",
        "ssl.truststore.location": "conf/ca.pem",
    },
    "ssl.ca.location": {"security.protocol": "SSL", "ssl.ca.location": "conf/ca.pem"},
    "ssl.ca.location, a folder": {"security.protocol": "SSL", "ssl.ca.location": "conf"},
    "ssl.keystore.location": {"security.protocol": "SSL", "ssl.keystore.location": "conf/both.pem"},
    "ssl.certificate.location": {
        "security.protocol": "SSL",
        "ssl.certificate.location": "conf/chain.pem",
        "ssl.keystore.key": "KEY",
    },
    "ssl.key.location": {
        "security.protocol": "SSL",
        "ssl.keystore.certificate.chain": "CHAIN",
        "ssl.key.location": "conf/key.pem",
    },
    "https.ca.location": {**OIDC, "https.ca.location": "conf/ca.pem"},
    "ssl.truststore.location of JAAS": {
        **{name: text for name, text in OIDC.items() if "client" not in name},
        "sasl.jaas.config": JAAS.format("ssl.truststore.location").replace(
            "FILE", "HERE/conf/ca.pem"
        ),
    },
    "${file:}": {"client.id": "${file:HERE/conf/x.properties:id}"},
    "${directory:}": {"client.id": "${directory:HERE/conf:id}"},
}
"""Every field of client settings with the name of a file, with settings that use it."""


def replaced(top: Path) -> None:
    for path in sorted((top / "conf").iterdir()):
        path.write_text("EVIL")


def linked(top: Path) -> None:
    (top / "evil").write_text("EVIL")
    for path in sorted((top / "conf").iterdir()):
        path.unlink()
        path.symlink_to("../evil")


def linked_outside(top: Path) -> None:
    (top.parent / "evil").write_text("EVIL")
    for path in sorted((top / "conf").iterdir()):
        path.unlink()
        path.symlink_to(top.parent / "evil")


def folder_linked(top: Path) -> None:
    (top / "conf").rename(top / "evil")
    (top / "conf").symlink_to("evil")
    for path in sorted((top / "evil").iterdir()):
        path.write_text("EVIL")


def more(top: Path) -> None:
    replaced(top)
    (top / "conf" / "more.pem").write_text("EVIL")


def removed(top: Path) -> None:
    shutil.rmtree(top / "conf")


HEADS = (replaced, linked, linked_outside, folder_linked, more, removed)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("ca")
    authority = Authority.make(folder)
    identity = authority.client("ours")
    chain, key = identity.certificate.read_text(), identity.key.read_text()
    return {
        "conf/ca.pem": authority.certificate_file.read_text(),
        "conf/both.pem": chain + key,
        "conf/chain.pem": chain,
        "conf/key.pem": key,
        "conf/x.properties": "id=good\n",
        "conf/id": "good",
    }


@pytest.fixture
def top(tmp_path: Path, files: dict[str, str], monkeypatch) -> Path:
    """The work tree, with a valid version of every file in the base; it is the working directory."""
    path = repository(tmp_path.resolve() / "repo")
    commit(path, files)
    git(path, "update-ref", "refs/kquota/base", "HEAD")
    monkeypatch.chdir(path)
    return path


def trusted(top: Path) -> AllowedReferences:
    trusted_files = TrustedFiles(tree=Repository(top=top).tree("refs/kquota/base"), revision="base")
    return AllowedReferences(variables=".*", paths=(Path("/"),), files=trusted_files)


def settings(slot: str, top: Path, files: dict[str, str]) -> dict[str, str]:
    """The settings of a slot, with the texts of the base and the path of the work tree filled in."""
    inline = {"KEY": files["conf/key.pem"], "CHAIN": files["conf/chain.pem"]}
    slot_settings = {"bootstrap.servers": "localhost:1", **SLOTS[slot]}
    return {
        name: inline.get(text, text.replace("HERE", str(top)))
        for name, text in slot_settings.items()
    }


def facts(properties: dict[str, str], allowed: AllowedReferences) -> tuple[object, ...] | None:
    """The values that depend on the files; ``None`` if the files are refused."""
    try:
        config = ClientConfig.from_mapping(properties, allowed=allowed)
    except ConfigError:
        return None
    return config.client_id, config.tls


@pytest.mark.parametrize("head", HEADS)
def test_a_pull_request_head_cannot_replace_a_file_that_the_trusted_configuration_names(
    top: Path, files: dict[str, str], head: Callable[[Path], None]
):
    input_settings = {slot: settings(slot, top, files) for slot in SLOTS}
    before = {slot: facts(values, ANYTHING) for slot, values in input_settings.items()}
    assert None not in before.values()
    head(top)
    for slot, values in input_settings.items():
        assert facts(values, trusted(top)) == before[slot], slot
        assert facts(values, ANYTHING) != before[slot], slot


def test_the_slots_above_include_every_setting_that_names_a_location():
    locations = {
        name
        for name, rule in KEYS.items()
        if rule.kind is not ValueKind.IGNORED and re.search("location|file|path", name)
    }
    assert locations == {slot for slot in SLOTS if "location" in slot and " " not in slot}


NAMING_FILES = {"propertiesFile", "file", "auditLog", "manifests", "evidenceUri", "properties"}
"""Fields of the project file whose values can name a file."""

MENTIONING_FILES = {
    "bootstrapServers",
    "clusters",
    "inventory",
    "items",
    "name",
    "paths",
    "reading",
    "secretRef",
    "status",
}
NAMES_A_FILE = re.compile(r"\b(?:file|folder|path)s?\b", re.IGNORECASE)


def test_every_field_of_the_project_file_that_names_a_file_is_listed():
    fields = {
        name for name, text in described() if NAMES_A_FILE.search(text) or name.endswith("Uri")
    }
    assert fields - MENTIONING_FILES == NAMING_FILES


def described() -> Iterator[tuple[str, str]]:
    """Every field of the schemas of project files, with its description."""

    def walk(schema: object) -> Iterator[tuple[str, str]]:
        if isinstance(schema, dict):
            for name, inner in schema.items():
                if isinstance(inner, dict) and isinstance(inner.get("description"), str):
                    yield name, inner["description"]
                yield from walk(inner)
        elif isinstance(schema, list):
            for inner in schema:
                yield from walk(inner)

    for name in ("quotacluster.json", "quotaproject.json"):
        text = resources.files("reconciler.manifest").joinpath("schemas", name).read_text()
        yield from walk(json.loads(text))


# -- paths ----------------------------------------------------------------------------------------------


def test_files_outside_the_work_tree_are_read_from_the_disk(top: Path, tmp_path: Path):
    (tmp_path / "ca.pem").write_text("outside")
    (tmp_path / "link.pem").symlink_to("ca.pem")
    files = trusted(top).files
    for name in (tmp_path / "ca.pem", tmp_path / "link.pem", Path("../ca.pem")):
        assert files.read(name) == b"outside"
    assert [entry.name for entry in files.list_folder(tmp_path) or ()] == [
        "ca.pem",
        "link.pem",
        "repo",
    ]


@pytest.mark.parametrize("way", ["straight", "by a link of the head", "by /proc"])
def test_a_path_from_outside_through_the_work_tree_is_refused(top: Path, tmp_path: Path, way: str):
    (tmp_path / "evil.pem").write_text("EVIL")
    (top / "out").symlink_to(tmp_path / "evil.pem")
    (tmp_path / "in").symlink_to(top / "conf" / "ca.pem")
    (tmp_path / "through").symlink_to(top / "out")
    path = {
        "straight": tmp_path / "in",
        "by a link of the head": tmp_path / "through",
        "by /proc": Path("/proc/self/cwd/conf/ca.pem"),
    }[way]
    with pytest.raises(ConfigError, match="leads through the checkout"):
        trusted(top).files.read(path)


def test_a_file_that_only_the_checkout_contains_is_refused(top: Path):
    (top / "conf" / "new.pem").write_text("EVIL")
    with pytest.raises(ConfigError, match="is not in the repository at base") as refused:
        trusted(top).files.read(Path("conf/new.pem"))
    assert "merge the file first" in refused.value.hint
    assert trusted(top).files.list_folder(Path("nowhere")) is None


def test_a_link_of_the_base_revision_must_not_leave_the_repository(top: Path):
    (top / "near").symlink_to("conf/id")
    (top / "far").symlink_to("/etc/passwd")
    commit(top, {})
    git(top, "update-ref", "refs/kquota/base", "HEAD")
    assert trusted(top).files.read(Path("near")) == b"good"
    with pytest.raises(ConfigError, match="outside the repository"):
        trusted(top).files.read(Path("far"))


def test_circular_links_are_detected(top: Path, tmp_path: Path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(ConfigError, match="cannot be read"):
        trusted(top).files.read(tmp_path / "a")
    assert os.path.lexists(tmp_path / "a")
