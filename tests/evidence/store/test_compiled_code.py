"""Compiled code is kept where no other user can write, or nowhere."""

from pathlib import Path

import pytest

from reconciler.evidence.store.compiled_code import is_private, keep_compiled_code


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
