"""The argument syntax of kafka-client-quotas, and its output of names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.cli import client_quotas_arguments as kip
from reconciler.cli.client_quotas import main
from reconciler.cli.client_quotas_arguments import read_call
from reconciler.errors import UsageError
from tests.quota.test_entity_forms import KAFKA_NAMES


@given(
    st.dictionaries(
        st.sampled_from(["user", "client-id", "ip"]), st.none() | KAFKA_NAMES, min_size=1
    )
)
def test_any_names_can_be_passed_as_they_are_printed(names):
    subject = tuple(names.items())
    printed = ",".join(kip.entity_line((part,))[1:-1] for part in subject)
    assert kip.entity_parts(printed, option="--names") == subject


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user=a,", "not an entity"),
        ("", "not an entity"),
        (r"user=a\,b", "JSON string"),
        ("user=a,user=b", "twice"),
        ("user=\udcff", "UTF-8"),
    ],
)
def test_malformed_names_are_refused_with_a_message(text, message):
    with pytest.raises(UsageError, match=message):
        kip.entity_parts(text, option="--names")


@pytest.mark.parametrize(("text", "message"), [("user,user", "twice"), ("a,,b", "empty")])
def test_malformed_lists_are_refused_with_a_message(text, message):
    with pytest.raises(UsageError, match=message):
        kip.items(text, option="--defaults")


def test_whole_values_are_printed_without_decimals_and_keys_are_sorted():
    assert list(kip.value_lines([("b", 4_000_000.0), ("a", 50.5)])) == ["a=50.5", "b=4000000"]


@pytest.mark.parametrize("text", ["", "10Mi", "nan", "inf", "1_000", "٣", "0x10"])
def test_invalid_decimal_numbers_are_refused(text):
    with pytest.raises(UsageError, match="decimal number"):
        kip.number(text, key="producer_byte_rate")


def test_zero_and_negative_values_are_left_to_the_broker():
    assert kip.number("-1", key="producer_byte_rate") == -1.0


NOWHERE = "--bootstrap-server=127.0.0.1:1"

WRONG = [
    ((), "exactly one of"),
    (("--describe", "--resolve"), "exactly one of"),
    (("--alter",), "--add or --delete"),
    (("--alter", "--add=a=1"), "needs --names or --defaults"),
    (("--alter", "--add=a=1", "--names=user=a", "--any=ip"), "--any needs --describe"),
    (("--resolve", "--names=user=a", "--any=ip"), "--any needs --describe"),
    (("--describe", "--names=user=a", "--any=user"), "both --names and --any: user"),
    (("--describe", "--defaults=user", "--any=user"), "both --defaults and --any: user"),
    (("--alter", "--add=a=1", "--delete=a", "--names=user=u"), "both --add and --delete: a"),
    (("--alter", "--add=a=1,a=2", "--names=user=u"), "'a' is given twice"),
    (("--alter", "--delete=a,a", "--names=user=u"), "'a' is given twice"),
    (("--alter", "--add=a", "--names=user=u"), "key=value"),
    (("--alter", "--add=a=fast", "--names=user=u"), "not a decimal number"),
    (("--describe", "--names=user=a", "--defaults=user"), "both --names and --defaults: user"),
    (("--describe", "--names=user=a", "--names=user=b"), "--names is given twice"),
    (("--describe", "--add=a=1"), "--add needs --alter"),
    (("--describe", "--validate-only"), "--validate-only needs --alter"),
    (("--resolve", "--defaults=user"), "cannot be combined with --resolve"),
    (("--resolve",), "needs --names"),
    (("--resolve", "--names=planet=mars"), "cannot determine what applies to 'planet'"),
    (("--resolve", "--names=user=a", "--delete=b"), "--delete needs --alter"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_contradictory_options_are_reported_and_exit_1(arguments, message, capsys):
    assert main([NOWHERE, *arguments]) == 1
    output, err = capsys.readouterr()
    assert output == ""
    assert message in err
    assert "Traceback" not in err


def test_a_missing_bootstrap_server_is_an_error(capsys):
    assert main(["--describe"]) == 1
    assert "--bootstrap-server is missing" in capsys.readouterr().err


def test_names_and_defaults_build_one_entity():
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
