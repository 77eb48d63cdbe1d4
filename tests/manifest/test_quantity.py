"""Quantities as Kubernetes reads them, exactly."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.manifest.quantity import decimal_text, manifest_whole, parse, parse_integer, spell


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Mi",
        "1 Mi",
        "1MI",
        "1mi",
        "1K",
        "1KB",
        "1e",
        "1e1k",
        "1e100",
        "1Ki5",
        "--1",
        "1_0",
        "0x10",
        "\u0661",
        "1\n",
        "inf",
        "nan",
        "1" * 65,
    ],
)
def test_an_invalid_quantity_is_refused(text: str) -> None:
    with pytest.raises(QuotaValueError):
        parse(text)


@given(
    st.integers(1, 10**6),
    st.sampled_from("kKmMgGtTpP"),
    st.sampled_from(["B", "b", "iB", "ib", "B/s", "iB/s", "Bps", " i", " "]),
)
def test_a_number_with_a_unit_is_refused_with_spellings_that_are_accepted(
    number: int, letter: str, unit: str
) -> None:
    text = f"{number} {letter}{unit.strip()}" if " " in unit else f"{number}{letter}{unit}"
    with pytest.raises(QuotaValueError) as caught:
        parse(text)
    advice = caught.value.message.partition("; write ")[2]
    spellings = [word for word in advice.split() if word[0].isdigit() and word[-1].isalpha()]
    power = "KMGTP".index(letter.upper()) + 1
    binary, decimal = number * 1024**power, number * 1000**power
    expected = [binary] if "i" in unit else [decimal, binary]
    assert [parse_integer(spelling) for spelling in spellings] == expected


@pytest.mark.parametrize(
    "text",
    [
        "+5",
        "010Mi",
        "5n",
        "5u",
        "1e-3",
        "1.",
        ".5",
        "1.0000001k",
        "-1",
        "1.5",
        "1000m",
        "0.1Ki",
        "1.5e3",
        "1.0",
    ],
)
def test_a_manifest_accepts_only_quantities_that_every_reader_parses_alike(text: str) -> None:
    with pytest.raises(QuotaValueError):
        manifest_whole(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("3000m", "write 3"),
        ("+10Mi", "write 10Mi"),
        ("0.5", "is 0.5, which is not a whole"),
        ("-1", "not greater than 0"),
        ("0.0625Ki", "write 64"),
        ("soon", "is not a quantity"),
    ],
)
def test_the_refusal_of_a_quantity_names_a_correct_spelling(text: str, hint: str) -> None:
    with pytest.raises(QuotaValueError, match=hint):
        manifest_whole(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.5Mi", 1_572_864),
        ("0.125Ki", 128),
        ("1.125k", 1125),
        ("2e6", 2_000_000),
        ("2E6", 2_000_000),
        ("1Pi", 2**50),
    ],
)
def test_decimals_are_accepted_if_the_suffix_makes_them_whole(text: str, value: int) -> None:
    assert manifest_whole(text) == value


@pytest.mark.parametrize("text", ["8Ei", "10E", "9223372036854775808", "1e30", "9.3E"])
def test_a_quantity_that_kubernetes_would_truncate_is_refused(text: str) -> None:
    with pytest.raises(QuotaValueError, match="9223372036854775807"):
        manifest_whole(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (10485760, "10Mi"),
        (20_000_000, "20M"),
        (16_000_000, "16M"),
        (1024, "1Ki"),
        (1000, "1000"),
        (999, "999"),
        (1, "1"),
        (2**62, "4Ei"),
        (2**63 - 1, "9223372036854775807"),
        (1536, "1536"),
        (1_572_864, "1536Ki"),
    ],
)
def test_a_number_is_written_in_its_usual_spelling(value: int, text: str) -> None:
    assert spell(value) == text


@given(st.integers(1, 2**63 - 1) | st.integers(1, 2**20).map(lambda n: n * 1024**3))
def test_a_written_number_is_read_back(value: int) -> None:
    assert manifest_whole(spell(value)) == value


def test_a_fraction_without_a_decimal_is_shown_as_a_fraction() -> None:
    assert decimal_text(Fraction(1, 3)) == "1/3"
