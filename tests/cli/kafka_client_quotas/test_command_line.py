"""Contradictions on a kafka-client-quotas command line: each exits 1 before any broker is asked."""

import pytest

from reconciler.cli.client_quotas import main
from reconciler.cli.kafka_client_quotas.command_line import read_call

NOWHERE = "--bootstrap-server=127.0.0.1:1"

WRONG = [
    ((), "exactly one of"),
    (("--describe", "--resolve"), "exactly one of"),
    (("--alter",), "--add or --delete"),
    (("--alter", "--add=a=1"), "needs --names or --defaults"),
    (("--alter", "--add=a=1", "--names=user=a", "--any=ip"), "--any belongs to --describe"),
    (("--resolve", "--names=user=a", "--any=ip"), "--any belongs to --describe"),
    (("--describe", "--names=user=a", "--any=user"), "both --names and --any: user"),
    (("--describe", "--defaults=user", "--any=user"), "both --defaults and --any: user"),
    (("--alter", "--add=a=1", "--delete=a", "--names=user=u"), "both --add and --delete: a"),
    (("--alter", "--add=a=1,a=2", "--names=user=u"), "'a' is given twice"),
    (("--alter", "--delete=a,a", "--names=user=u"), "'a' is given twice"),
    (("--alter", "--add=a", "--names=user=u"), "key=value"),
    (("--alter", "--add=a=fast", "--names=user=u"), "no decimal number"),
    (("--describe", "--names=user=a", "--defaults=user"), "both --names and --defaults: user"),
    (("--describe", "--names=user=a", "--names=user=b"), "--names is given twice"),
    (("--describe", "--add=a=1"), "--add belongs to --alter"),
    (("--describe", "--validate-only"), "--validate-only belongs to --alter"),
    (("--resolve", "--defaults=user"), "no meaning with --resolve"),
    (("--resolve",), "needs --names"),
    (("--resolve", "--names=planet=mars"), "cannot determine what applies to 'planet'"),
    (("--resolve", "--names=user=a", "--delete=b"), "--delete belongs to --alter"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG)
def test_a_contradiction_is_told_and_exits_1(arguments, said, capsys):
    assert main([NOWHERE, *arguments]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert "Traceback" not in err


def test_without_a_bootstrap_server_nothing_can_be_asked(capsys):
    assert main(["--describe"]) == 1
    assert "--bootstrap-server is missing" in capsys.readouterr().err


def test_names_and_defaults_spell_one_entity():
    call = read_call(
        "alter",
        names=["client-id=my-client"],
        defaults=["user"],
        any_names=[],
        add=["consumer_byte_rate=2000000"],
        delete=["producer_byte_rate"],
        validate_only=False,
    )
    assert call.entity == (("client-id", "my-client"), ("user", None))
    assert call.add == {"consumer_byte_rate": 2_000_000.0}
    assert call.delete == ("producer_byte_rate",)
