"""A file that a user names is not written through a link to a place outside of the repository."""

from pathlib import Path

import pytest

from reconciler.base.text_files import check_place, write_text
from reconciler.errors import UsageError
from tests.git.commits import repository


@pytest.mark.parametrize("name", ["link/file", "folder/link/file", "link/folder/file"])
def test_a_folder_that_is_a_link_out_of_the_repository_is_not_written(
    tmp_path: Path, name: str
) -> None:
    top, outside = repository(tmp_path / "top"), tmp_path / "outside"
    (outside / "folder").mkdir(parents=True)
    (top / "folder").mkdir()
    for link in (top / "link", top / "folder/link"):
        link.symlink_to(outside)
    for write in (check_place, lambda path: write_text(path, "text")):
        with pytest.raises(UsageError, match=r"cannot be written: it leads to .*outside"):
            write(top / name)
    assert not list(outside.rglob("file"))
    write_text(top / name, "text", may_leave=True)


def test_links_inside_of_a_repository_and_outside_of_all_are_followed(tmp_path: Path) -> None:
    top, folder = repository(tmp_path / "top"), tmp_path / "folder"
    (top / "reports").mkdir()
    folder.mkdir()
    (top / "link").symlink_to("reports")
    (tmp_path / "link").symlink_to(folder)
    for link in (top / "link", tmp_path / "link"):
        check_place(link / "file")
        write_text(link / "file", "text")
    assert (top / "reports/file").read_text() == (folder / "file").read_text() == "text"
