"""The connection to an API server: kubeconfig, pod, proxies; a token that changes; no secret in errors."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import ConfigError
from reconciler.kube.api import access
from tests.servers.certs import Authority

PLANTED = "t0ken-planted"


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def kubeconfig(path: Path, *, server: str = "http://127.0.0.1:1", **user: Any) -> Path:
    """A kubeconfig with one context whose namespace is `kafka`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    context = {"cluster": "c", "user": "u", "namespace": "kafka"}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "contexts": [{"name": "x", "context": context}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(content), "utf-8")
    return path


def loaded(*args: Any, **options: Any) -> tuple[access.ApiAccess, str]:
    async def story() -> tuple[access.ApiAccess, str]:
        api_access = await access.load(*args, **options)
        return api_access, await api_access.authorization()

    return asyncio.run(story())


def test_a_named_kubeconfig_defines_server_and_token(tmp_path: Path) -> None:
    api_access, authorization = loaded(kubeconfig(tmp_path / "k", token=PLANTED))
    assert (api_access.host, api_access.tls) == ("http://127.0.0.1:1", None)
    assert authorization == f"Bearer {PLANTED}"
    assert PLANTED not in repr(api_access)


def test_the_kubeconfig_variable_may_list_several_files_that_are_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = json.loads(kubeconfig(tmp_path / "first").read_text("utf-8"))
    users = [{"name": "u", "user": {"token": PLANTED}}]
    second = {"apiVersion": "v1", "kind": "Config", "users": users}
    (tmp_path / "first").write_text(json.dumps({**first, "users": []}), "utf-8")
    (tmp_path / "second").write_text(json.dumps(second), "utf-8")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'first'}:{tmp_path / 'second'}")
    api_access, authorization = loaded()
    assert (api_access.host, authorization) == ("http://127.0.0.1:1", f"Bearer {PLANTED}")


def pod(folder: Path, monkeypatch: pytest.MonkeyPatch, ca: Path) -> Path:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    folder.mkdir()
    (folder / "token").write_text(f"{PLANTED}\n", "utf-8")
    (folder / "ca.crt").write_bytes(ca.read_bytes())
    return folder


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Authority.make(tmp_path_factory.mktemp("ca"), name="access test CA").certificate_file


def test_in_a_pod_the_service_account_takes_precedence_over_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, authority: Path
) -> None:
    kubeconfig(tmp_path / "home" / ".kube" / "config")
    folder = pod(tmp_path / "pod", monkeypatch, authority)
    api_access, authorization = loaded(pod_folder=folder)
    assert api_access.host == "https://[fd00::1]:443"
    assert api_access.tls is not None
    assert authorization.lower() == f"bearer {PLANTED}"


def test_a_token_that_the_kubelet_replaced_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, authority: Path
) -> None:
    folder = pod(tmp_path / "pod", monkeypatch, authority)

    async def story() -> str:
        api_access = await access.load(pod_folder=folder)
        (folder / "token").write_text("second", "utf-8")
        return await api_access.authorization()

    assert asyncio.run(story()).lower() == "bearer second"


def test_a_session_uses_the_new_token_and_raises_an_error_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, authority: Path
) -> None:
    folder = pod(tmp_path / "pod", monkeypatch, authority)
    following = tmp_path / "following"
    following.write_text(f"{PLANTED[::-1]}\n", "utf-8")

    async def story() -> list[str]:
        api_access = await access.load(pod_folder=folder)
        tokens = [await api_access.authorization(), await api_access.authorization()]
        # Like the kubelet: the name gets another file of the same size.
        following.rename(folder / "token")
        tokens.append(await api_access.authorization())
        (folder / "token").unlink()
        for _ in range(2):
            with pytest.raises(ConfigError, match="the service account token cannot be read"):
                _ = await api_access.authorization()
        (folder / "token").write_text("third", "utf-8")
        return [*tokens, await api_access.authorization()]

    tokens = asyncio.run(story())
    assert tokens == [f"Bearer {token}" for token in (PLANTED, PLANTED, PLANTED[::-1], "third")]


def test_without_any_configuration_the_error_has_a_hint(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no credentials for a Kubernetes API server") as caught:
        loaded(pod_folder=tmp_path)
    assert "--kubeconfig" in caught.value.hint


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "a: [",
        "current-context: x",
        f"users: [{{user: {{token: {PLANTED}}}}}]\ncurrent-context: x\ncontexts: []",
        f"users: [{{name: u, user: {{token: {PLANTED}}}}}]\ncurrent-context: x\nclusters: []",
        f"token: {PLANTED}\n  : [",
    ],
)
def test_an_invalid_kubeconfig_is_named_and_not_quoted(tmp_path: Path, content: str) -> None:
    path = tmp_path / "broken"
    path.write_text(content, "utf-8")
    with pytest.raises(ConfigError) as caught:
        loaded(path)
    assert str(path) in str(caught.value)
    assert PLANTED not in str(caught.value)
