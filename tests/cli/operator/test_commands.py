"""The operator's command lines without a cluster: accepted and refused options, and the format of logs."""

import json
import logging
from collections.abc import Iterator

import pytest

from reconciler.cli.framework.logs import JsonLogFormatter, OneLineFormatter, log_to_stderr
from reconciler.errors import UsageError
from reconciler.kube.configuration.operator_settings import OperatorSettings


@pytest.fixture(autouse=True)
def no_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("POD_NAME", "POD_NAMESPACE", "KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def broken(folder):
    """A kubeconfig with an unreachable server."""
    path = folder / "kubeconfig"
    path.write_text("current-context: x\ncontexts: []\n", "utf-8")
    return path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["operator"], "--operator-namespace"),
        (["operator", "release"], "--operator-namespace"),
        (["operator", "release", "--operator-namespace", "k"], "pass --all, or --namespace"),
        (
            ["operator", "release", "--operator-namespace", "k", "--all", "--namespace", "n"],
            "pass --all, or --namespace",
        ),
        (
            ["operator", "--operator-namespace", "k", "--webhook-address", ":9443"],
            "belong together",
        ),
        (["operator", "--operator-namespace", "k", "--deletion-timeout", "soon"], "not a duration"),
        (["override", "list", "--kubeconfig", "x"], "need --kubernetes"),
        (["override", "list", "--kubernetes", "--operator-namespace", "k"], "needs --cluster"),
        (
            [
                "override",
                "list",
                "--kubernetes",
                "--bootstrap-server",
                "b:1",
                "--operator-namespace",
                "k",
            ],
            "cannot be combined with --bootstrap-server",
        ),
        (["override", "list", "--kubernetes", "--cluster", "c"], "--operator-namespace"),
    ],
)
def test_contradictory_options_are_refused_before_anything_is_contacted(
    kquota, arguments, message
) -> None:
    ran = kquota(*arguments)
    assert ran.code == 1
    assert message in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["operator", "release", "--all", "--operator-namespace", "k"],
        ["operator", "--operator-namespace", "k", "--metrics-address", "127.0.0.1:0"],
    ],
)
def test_without_access_to_an_api_server_the_error_names_the_kubeconfig(
    kquota, broken, arguments
) -> None:
    ran = kquota(*arguments, "--kubeconfig", broken)
    assert ran.code == 1
    assert str(broken) in ran.err
    assert "--kubeconfig" in ran.err


def test_settings_of_a_webhook_are_complete_or_absent(tmp_path) -> None:
    with pytest.raises(UsageError, match="belong together"):
        OperatorSettings(identity="a", operator_namespace="b", webhook_cert=tmp_path)
    with pytest.raises(UsageError, match="identity"):
        OperatorSettings(identity="", operator_namespace="b")


def record(message: str, *arguments: object) -> logging.LogRecord:
    new_record = logging.LogRecord(
        "reconciler.kube", logging.WARNING, "", 1, message, arguments, None
    )
    new_record.created = 1_700_000_000.5
    return new_record


def test_a_json_log_record_is_one_line_for_any_content() -> None:
    line = JsonLogFormatter().format(record("a\n%s", "b\x1b[31m"))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.500Z",
        "level": "warning",
        "logger": "reconciler.kube",
        "message": "a\nb\x1b[31m",
    }


def test_a_text_log_line_cannot_be_forged() -> None:
    line = OneLineFormatter().format(record("a\n%s", "b\x1b[31m"))
    assert line == "2023-11-14T22:13:20Z WARNING a\\u000ab\\u001b[31m"


def test_a_logged_error_keeps_its_traceback() -> None:
    new_record = record("it failed")
    new_record.exc_info = (ValueError, ValueError("planted"), None)
    assert "planted" in json.loads(JsonLogFormatter().format(new_record))["error"]
    assert "ValueError: planted" in OneLineFormatter().format(new_record)


@pytest.fixture
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in ("kopf", "aiohttp")}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)


@pytest.mark.usefixtures("root_logger")
def test_logs_go_to_standard_error_and_libraries_log_warnings_only(capsys) -> None:
    log_to_stderr("json")
    logging.getLogger("reconciler.kube").info("ours")
    logging.getLogger("aiohttp.client").info("theirs")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert json.loads(captured.err)["message"] == "ours"
