"""Compiled code is kept where no other user can write, or nowhere."""

from pathlib import Path

import pytest

from reconciler.evidence.store.compiled_code import FOLDER, is_private, keep_compiled_code


@pytest.mark.parametrize("name", ["XDG_CACHE_HOME", "HOME"])
def test_the_folder_is_a_new_one_of_this_user(tmp_path: Path, name: str) -> None:
    environment = {name: str(tmp_path), "NUMBA_CACHE_DIR": "/any"}
    keep_compiled_code(environment)
    folder = Path(environment["NUMBA_CACHE_DIR"])
    assert folder == tmp_path / ("" if name == "XDG_CACHE_HOME" else ".cache") / FOLDER
    assert folder.stat().st_mode & 0o777 == 0o700
    assert environment["NUMBA_CACHE_LOCATOR_CLASSES"] == "UserProvidedCacheLocator"


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o755])
def test_a_folder_that_others_may_enter_is_not_used(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir(parents=True)
    folder.chmod(mode)
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    keep_compiled_code(environment)
    assert environment["NUMBA_CACHE_DIR"] == ""


@pytest.mark.parametrize(("mode", "safe"), [(0o777, False), (0o775, False), (0o1777, True)])
def test_others_may_write_above_the_folder_only_if_they_cannot_replace_it(
    tmp_path: Path, mode: int, safe: bool
) -> None:
    folder = tmp_path / "shared" / "mine"
    folder.mkdir(parents=True, mode=0o700)
    folder.chmod(0o700)
    folder.parent.chmod(mode)
    assert is_private(folder) is safe


def test_a_link_counts_as_the_folder_it_leads_to(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    link = tmp_path / "link"
    link.symlink_to(shared)
    assert not is_private(link)


@pytest.mark.parametrize(
    "environment", [{}, {"HOME": ""}, {"HOME": "relative"}, {"XDG_CACHE_HOME": "/dev/null"}]
)
def test_without_a_place_code_stays_in_memory(environment: dict[str, str]) -> None:
    keep_compiled_code(environment)
    assert environment["NUMBA_CACHE_DIR"] == ""
