from pathlib import Path

import pytest

from reconciler.client.configuration.references import ANYTHING, NOTHING, AllowedReferences, resolve
from reconciler.errors import ConfigError


def resolved(value: str, allowed: AllowedReferences = ANYTHING) -> str:
    return resolve(
        value,
        allowed=allowed,
        key="sasl.password",
        location="f:3",
        environment={"X": "${env:Y}", "Y": "y"},
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("from a file\n")
    (tmp_path / "p.properties").write_text("user = alice\npassword = s3cret\n")
    return tmp_path


def test_a_resolved_value_is_not_resolved_again() -> None:
    assert resolved("${env:X}") == "${env:Y}"


def test_a_key_of_a_properties_file_is_resolved(folder: Path) -> None:
    assert resolved(f"${{file:{folder}/p.properties:password}}") == "s3cret"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${env:NONE}", "NONE, which is not set"),
        ("${file:{folder}/p.properties:none}", "the key none, which .* does not contain"),
        ("${file:{folder}/none:x}", "No such file"),
        ("${file:relative:x}", "absolute path"),
        ("${directory:{folder}:../x}", "plain name"),
        ("${directory:{folder}:..}", "plain name"),
        ("${directory:{folder}:}", "plain name"),
    ],
)
def test_an_unresolvable_reference_is_an_error_with_key_and_place(
    folder: Path, text: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        resolved(text.replace("{folder}", str(folder)))
    assert (caught.value.key, caught.value.where) == ("sasl.password", "f:3")
    assert str(caught.value).startswith("f:3: sasl.password: ")


@pytest.mark.parametrize(
    "text", ["${env:Y}", "${file:{folder}/p.properties:user}", "${directory:{folder}:secret}"]
)
def test_no_reference_is_read_without_permission(folder: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="may not read"):
        resolved(text.replace("{folder}", str(folder)), NOTHING)


def test_permission_is_given_by_pattern_and_by_folder(folder: Path) -> None:
    allowed = AllowedReferences(variables="Y|Z_.*", paths=(folder / "inside",))
    (folder / "inside").mkdir()
    (folder / "inside" / "a").write_text("in")
    (folder / "inside" / "link").symlink_to(folder / "secret")
    assert resolved("${env:Y}", allowed) == "y"
    assert resolved(f"${{directory:{folder}/inside:a}}", allowed) == "in"
    for text in (
        "${env:X}",
        f"${{directory:{folder}:secret}}",
        f"${{directory:{folder}/inside:link}}",
    ):
        with pytest.raises(ConfigError, match="may not read"):
            resolved(text, allowed)
