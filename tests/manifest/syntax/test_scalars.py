"""The table of plain scalars that YAML readers read differently, and the available readers."""

import re

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.manifest.syntax.scalars import AmbiguousScalar, is_text, meaning
from tests.manifest.samples import texts

REFUSED = (
    # truth values of YAML 1.1 (the full list of its type repository), and those of go-yaml v2
    "y",
    "Y",
    "n",
    "N",
    "yes",
    "Yes",
    "YES",
    "no",
    "No",
    "NO",
    "on",
    "On",
    "ON",
    "off",
    "Off",
    "OFF",
    "true",
    "True",
    "TRUE",
    "false",
    "False",
    "FALSE",
    # null, merge, default key
    "",
    "~",
    "null",
    "Null",
    "NULL",
    "=",
    "<<",
    # whole numbers: decimal, octal of 1.1 and 1.2, hexadecimal, binary, base 60, with signs and underscores
    "0",
    "123",
    "-1",
    "+1",
    "017",
    "0o17",
    "0x1F",
    "0b101",
    "-0x1F",
    "12:30",
    "1:30:45",
    "1_000",
    "0_x1F",
    "_1",
    "+_1",
    "1:2:3:4:5:6:7:8",
    # fractions, exponents, infinities
    "1.5",
    "1.",
    ".5",
    "-.5",
    "1e7",
    "1E7",
    "1e+7",
    "1.5e-3",
    "12e03",
    ".inf",
    "-.inf",
    "+.INF",
    ".Inf",
    ".nan",
    ".NaN",
    "12:30.5",
    "1_0.5",
    # times
    "2024-01-01",
    "2024-1-1",
    "2024-01-01T10:00:00Z",
    "2024-01-01 10:00:00 +1",
)
TEXT = (
    "alice",
    "team-a.svc",
    "10.0.0.7",
    "::1",
    "2001:db8::1",
    "fe80::1:2:3",
    "10Mi",
    "1.5k",
    "100m",
    "1E",
    "user:1",
    "a1",
    "-",
    "+",
    ".",
    "-a",
    "nan",
    "inf",
    "Infinity",
    "yEs",
    "tRue",
    "nULL",
    "0xZZ",
    "1.2.3",
    "1e",
    "CN=a,O=b",
    "<default>",
    "==",
    "1-2",
    "x_1",
    "é",
    "a b",
)


@pytest.mark.parametrize("plain", REFUSED)
def test_a_scalar_that_a_reader_parses_as_another_type_is_not_text(plain: str) -> None:
    assert not is_text(plain)


@pytest.mark.parametrize("plain", TEXT)
def test_a_scalar_that_every_reader_parses_as_text_is_text(plain: str) -> None:
    assert is_text(plain)
    assert meaning(plain) == plain


PYYAML = yaml.SafeLoader(
    ""
)  # its resolver is the YAML 1.1 of PyYAML; SnakeYAML's is the same table


def pyyaml_tag(plain: str) -> str:
    tag: str = PYYAML.resolve(yaml.ScalarNode, plain, (True, False))
    return tag


CORE = re.compile(
    r"null|Null|NULL|~||true|True|TRUE|false|False|FALSE|[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"
    r"|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
"""YAML 1.2.2, chapter 10.3.2: scalars that the core schema does not read as text."""


def go_yaml_is_text(plain: str) -> bool:
    """go-yaml v2 resolve.go, as in sigs.k8s.io/yaml: tables by first letter, then Go's own number parsers."""
    words = "y Y yes Yes YES true True TRUE on On ON n N no No NO false False FALSE off Off OFF ~ null Null NULL <<"
    if plain in words.split() or not plain:
        return False
    if plain in {
        ".inf",
        ".Inf",
        ".INF",
        "+.inf",
        "+.Inf",
        "+.INF",
        "-.inf",
        "-.Inf",
        "-.INF",
        ".nan",
        ".NaN",
        ".NAN",
    }:
        return False
    if plain[0] not in "+-.0123456789":
        return True
    digits = plain.replace("_", "")
    is_float = re.fullmatch(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", digits)
    is_int = re.fullmatch(
        r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|[1-9][0-9]*|0)", digits
    )
    is_time = re.fullmatch(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?", plain)
    return not (is_float or is_int or is_time)


number_like = st.text("0123456789+-._:eExXoObBTtZ aAfFiIn", max_size=8)


@given(st.one_of(number_like, texts, st.sampled_from(REFUSED + TEXT)))
@example("1e7")
@example("-0b1")
def test_a_scalar_accepted_as_text_is_text_for_each_reader(plain: str) -> None:
    if (
        is_text(plain) and plain[0] not in "!&*"
    ):  # no plain scalar starts with it; PyYAML documents it by a rule
        assert pyyaml_tag(plain) == "tag:yaml.org,2002:str"
        assert not CORE.fullmatch(plain)
        assert go_yaml_is_text(plain)


@pytest.mark.parametrize(
    ("plain", "value"),
    [
        ("true", True),
        ("false", False),
        ("null", None),
        ("", None),
        ("~", None),
        ("0", 0),
        ("10", 10),
        ("-3", -3),
        ("50.5", 50.5),
        ("-0.25", -0.25),
        ("10Mi", "10Mi"),
    ],
)
def test_an_unambiguous_scalar_has_its_value(plain: str, value: object) -> None:
    assert meaning(plain) == value
    assert type(meaning(plain)) is type(value)


@pytest.mark.parametrize(
    "plain", ["yes", "True", "1e7", "017", "+1", "1_000", "12:30", ".5", "1.", "-0", "9" * 500]
)
def test_an_ambiguous_scalar_is_marked(plain: str) -> None:
    assert meaning(plain) == AmbiguousScalar(plain)
