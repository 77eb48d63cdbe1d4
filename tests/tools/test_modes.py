"""A generator writes its files, or lists those that are out of date."""

from pathlib import Path

import pytest

from tools import modes

TEXTS = {"docs/page.md": "text\n", "schemas/file.json": "{}\n"}


def run(root: Path, *arguments: str) -> int:
    return modes.main(arguments, root, lambda: TEXTS)


def test_a_written_page_is_up_to_date(tmp_path: Path) -> None:
    assert run(tmp_path, "--write") == 0
    assert run(tmp_path, "--check") == 0
    assert (tmp_path / "docs/page.md").read_text() == "text\n"


def test_a_file_that_differs_or_is_missing_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, "--write")
    (tmp_path / "docs/page.md").write_text("text\n\n")
    (tmp_path / "schemas/file.json").unlink()
    assert run(tmp_path, "--check") == 1
    assert capsys.readouterr().err == (
        "docs/page.md is out of date; run make generate\n"
        "schemas/file.json is out of date; run make generate\n"
    )


@pytest.mark.parametrize("arguments", [[], ["--wirte"], ["--write", "--check"]])
def test_invalid_arguments_write_nothing(tmp_path: Path, arguments: list[str]) -> None:
    assert run(tmp_path, *arguments) == 2
    assert list(tmp_path.iterdir()) == []
