"""The supported part of HCL."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import ManifestErrors
from reconciler.manifest.foreign import hcl


def attributes(body: str) -> dict[str, hcl.Value]:
    (block,) = hcl.resources(f'resource "t" "n" {{\n{body}\n}}', "f")
    return block.attributes


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ('"plain"', "plain"),
        ('"\\n\\t\\"\\\\\\u00e9\\U0001F600"', '\n\t"\\é😀'),
        ('"$${x} %%{y} $5 100%"', "${x} %{y} $5 100%"),
        ("12.5e3", "12.5e3"),
        ("-7", "-7"),
        ('"a" # comment', "a"),
        ('"a" // comment', "a"),
        ('/* before */ "a"', "a"),
    ],
)
def test_literals_have_the_value_that_terraform_gives_them(written, text):
    assert attributes(f"a = {written}") == {"a": hcl.HclLiteral(text=text, line=2)}


@pytest.mark.parametrize(
    "written",
    [
        "var.a",
        '"${a}"',
        '"%{ if x }a%{ endif }"',
        '"${f("}")}"',
        "f(1, [2])",
        "1 + 2",
        "[1]",
        "a ? 1 : 2",
        "{ (a) = 1 }",
        "{ for k, v in a : k => v }",
        "<<EOT\n}\nEOT",
        '<<-EOT\n  a = "x\n  EOT',
        "!true",
        '"a" == "b"',
        "merge({\n  a = 1\n}, {})",
    ],
)
def test_an_expression_is_kept_unevaluated_and_the_rest_is_read(written):
    values = attributes(f"a = {written}\nb = 2")
    assert isinstance(values["a"], hcl.HclExpression)
    assert isinstance(values["b"], hcl.HclLiteral)


def test_an_object_contains_literals_and_expressions():
    (attribute,) = attributes('m = { "a" = 1, b : "x"\n c = var.c }').values()
    assert isinstance(attribute, hcl.HclObject)
    assert [key for key, _ in attribute.entries] == ["a", "b", "c"]
    assert [type(value) for _, value in attribute.entries] == [
        hcl.HclLiteral,
        hcl.HclLiteral,
        hcl.HclExpression,
    ]


def test_nested_blocks_are_named_and_skipped():
    (block,) = hcl.resources(
        'resource "t" "n" {\n lifecycle {\n  a = "}"\n }\n dynamic "x" { }\n}', "f"
    )
    assert (block.type, block.name, block.line, block.blocks) == (
        "t",
        "n",
        1,
        ("lifecycle", "dynamic x"),
    )


def test_files_of_variables_and_empty_files_have_no_resources():
    assert hcl.resources('a = 1\nb = [1,\n 2]\nc = { x = "y" }\n', "f") == []
    assert hcl.resources("", "f") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a = "\\q"', "\\q is not an escape"),
        ('a = "\\u00g0"', "\\u is not an escape"),
        ('a = "\\Uffffffff"', "\\U is not an escape"),
        ('a = "${x"', "a string does not end"),
        ('a = "${x', "a template does not end"),
        ("a = [1", "a brace is missing"),
        ("a = (1]", "unmatched ]"),
        ("a = )", "unmatched )"),
        ("a =\n", "a value is missing"),
        ("= 1", "a name is missing"),
        ("a b", "{ or = is missing after a"),
        ('resource "t" "n" {\n a = 1\n a = 2\n}', "a is given twice"),
        ('resource "t" "n" {\n a = 1\n', "a name is missing"),
    ],
)
def test_invalid_hcl_is_an_error(text, message):
    with pytest.raises(ManifestErrors, match=r"^f:\d:0: not HCL: ") as raised:
        hcl.resources(text, "f")
    assert message in str(raised.value)


@given(st.text(st.sampled_from('ab ={}[]()"$%\\\n#/*<-E,:.1')))
def test_any_text_is_parsed_or_refused(text):
    with contextlib.suppress(ManifestErrors):
        assert isinstance(hcl.resources(text, "f"), list)
