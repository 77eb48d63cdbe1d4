"""Files of a checkout must be regular files inside it, and at most the allowed size is read."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.base.regular_files import boundary_of, check_inside, read_regular
from tests.servers.processes import HANG_SECONDS


def test_a_regular_file_is_read_to_its_end_and_not_beyond_the_limit(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"12345")
    assert read_regular(tmp_path / "a", max_bytes=5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes"):
        read_regular(tmp_path / "a", max_bytes=4)
    (tmp_path / "empty").touch()
    assert read_regular(tmp_path / "empty", max_bytes=0) == b""


def special(folder: Path, kind: str) -> Path:
    path = folder / kind
    match kind:
        case "directory":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(str(path))
        case _:
            path.symlink_to("/dev/zero")
    return path


@pytest.mark.parametrize("kind", ["directory", "pipe", "device"])
def test_a_file_that_is_not_regular_is_refused_immediately(tmp_path: Path, kind: str):
    with pytest.raises(OSError, match=f"it is a {kind}, not a regular file"):
        read_regular(special(tmp_path, kind), max_bytes=10)


def test_the_limit_applies_even_if_the_kernel_reports_a_smaller_size():
    assert Path("/proc/self/status").stat().st_size == 0
    assert read_regular("/proc/self/status", max_bytes=1 << 20)
    with pytest.raises(OSError, match="larger than 10 bytes"):
        read_regular("/proc/self/status", max_bytes=10)


def test_a_link_that_leaves_the_folder_is_refused(tmp_path: Path):
    inside = tmp_path.resolve() / "in"
    inside.mkdir()
    (tmp_path / "outside").write_text("out")
    (inside / "real").write_text("in")
    (inside / "near").symlink_to("real")
    (inside / "far").symlink_to(tmp_path / "outside")
    (inside / "chain").symlink_to("far")
    assert read_regular(inside / "near", max_bytes=9, boundary=inside) == b"in"
    assert read_regular(inside / "far", max_bytes=9) == b"out"
    for name in ("far", "chain"):
        with pytest.raises(OSError, match=r"leads to .*outside, which is outside"):
            read_regular(inside / name, max_bytes=9, boundary=inside)
        with pytest.raises(OSError, match="which is outside"):
            check_inside(inside / name, inside)


def test_a_pipe_of_a_shells_process_substitution_is_read(tmp_path: Path):
    code = "import sys; from reconciler.base.regular_files import read_regular; print(read_regular(sys.argv[1], max_bytes=9))"
    script = f"'{{python}}' -c '{code}' <(printf abc)"
    done = subprocess.run(
        ["bash", "-c", script.format(python=sys.executable)],
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_SECONDS,
    )
    assert done.stdout.strip() == "b'abc'"


def test_links_must_stay_in_the_repository_or_the_project_or_the_typed_folder(tmp_path: Path):
    top = tmp_path.resolve()
    (top / "repo" / ".git").mkdir(parents=True)
    (top / "repo" / ".git" / "HEAD").touch()
    (top / "repo" / "q").mkdir()
    (top / "plain" / "q").mkdir(parents=True)
    assert boundary_of(top / "repo" / "q", top / "plain") == top / "repo"
    assert boundary_of(top / "plain" / "q", top / "plain") == top / "plain"
    assert boundary_of(top / "plain" / "q", "/nowhere") == top / "plain" / "q"
    (top / "link").symlink_to(top / "plain" / "q")
    assert boundary_of(top / "link", "/nowhere") == top / "plain" / "q"
