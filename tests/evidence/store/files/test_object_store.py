import http.server
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.errors import LakeConflict, LakeDamaged, LakeError
from reconciler.evidence.store.files import object_store
from reconciler.evidence.store.files.object_store import FileStore
from tests.servers.ports import free_ports


@pytest.fixture(params=["folder", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> FileStore:
    return object_store.opened("memory://" if request.param == "memory" else str(tmp_path))


def test_a_stored_file_is_read_completely_and_in_parts(place: FileStore) -> None:
    place.put("a/b/c.bin", b"0123456789")
    assert place.get("a/b/c.bin") == b"0123456789"
    assert place.get_range("a/b/c.bin", 2, 5) == b"234"
    assert place.get_range("a/b/c.bin", 8, 50) == b"89"
    assert place.get_range("a/b/c.bin", 3, 3) == b""
    place.put("a/b/c.bin", b"new")
    assert place.get("a/b/c.bin") == b"new"


def test_creating_a_file_that_exists_is_a_conflict_and_changes_nothing(place: FileStore) -> None:
    place.put("a", b"first", create=True)
    with pytest.raises(LakeConflict, match="exists already"):
        place.put("a", b"second", create=True)
    assert place.get("a") == b"first"


def test_an_object_store_accepts_the_same_content_twice_because_a_response_may_be_lost() -> None:
    place = object_store.opened("memory://")
    place.put("a", b"same", create=True)
    place.put("a", b"same", create=True)
    with pytest.raises(LakeConflict):
        place.put("a", b"other", create=True)


def test_a_missing_file_returns_none_or_raises_an_error_with_its_path(place: FileStore) -> None:
    assert place.find("x/y") is None
    with pytest.raises(LakeDamaged, match=r"x/y: is not there"):
        place.get("x/y")
    with pytest.raises(LakeDamaged, match="x/y"):
        place.get_range("x/y", 0, 1)


def test_a_truncated_file_is_damaged(place: FileStore) -> None:
    place.put("x", b"abc")
    with pytest.raises(LakeDamaged):
        place.get_range("x", 10, 20)


def test_listings_are_sorted_and_match_complete_path_components(place: FileStore) -> None:
    for path in ("t/b", "t/a/x", "tt/z", "t/~5Fc/y"):
        place.put(path, b"12")
    assert place.paths("t") == ["t/a/x", "t/b", "t/~5Fc/y"]
    assert {file.size for file in place.stored("t")} == {2}
    assert place.paths("nothing") == []
    assert len(place.paths()) == 4
    assert all(file.modified_ms > 1_700_000_000_000 for file in place.stored())


def test_removing_accepts_missing_files(place: FileStore) -> None:
    place.put("a/b", b"1")
    place.put("a/c", b"1")
    place.delete(["a/b", "a/b", "nothing"])
    assert place.paths() == ["a/c"]
    place.delete([])


@pytest.mark.parametrize("path", ["../x", "/x", "a//b", "a/../b", "a/./b", ""])
def test_paths_that_leave_the_store_are_refused(place: FileStore, path: str) -> None:
    with pytest.raises(LakeError):
        place.put(path, b"1")


def test_removing_the_last_file_of_a_folder_removes_the_folder_and_never_the_root(
    tmp_path: Path,
) -> None:
    place = object_store.opened(str(tmp_path / "lake"), create=True)
    place.put("a/b/c", b"1")
    place.delete(["a/b/c"])
    assert list((tmp_path / "lake").iterdir()) == []


def test_a_missing_folder_is_an_error_unless_it_is_to_be_created(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="there is no such folder") as caught:
        object_store.opened(str(tmp_path / "none"))
    assert caught.value.hint == "create it, or check the address"
    object_store.opened(str(tmp_path / "none"), create=True).put("a", b"1")
    with pytest.raises(LakeError, match="is a file and not a folder"):
        object_store.opened(str(tmp_path / "none" / "a"))


def test_names_of_folders_and_files_are_used_without_unescaping(tmp_path: Path) -> None:
    place = object_store.opened(str(tmp_path / "my lake %20"), create=True)
    place.put("a~2F/x y", b"1")
    assert place.paths() == ["a~2F/x y"]
    assert (tmp_path / "my lake %20" / "a~2F" / "x y").is_file()


def test_a_file_in_place_of_a_parent_folder_is_reported(tmp_path: Path) -> None:
    place = object_store.opened(str(tmp_path))
    place.put("a", b"1")
    with pytest.raises(LakeError) as caught:
        place.put("a/b", b"1")
    assert "cannot be written" in str(caught.value)


REFUSED = """
import os, sys
from reconciler.errors import LakeError
from reconciler.evidence.store.files import object_store
place = object_store.opened(sys.argv[1])
if os.geteuid() == 0:
    os.seteuid(65534)  # nobody
for act in (
    lambda: place.put("c", b"1"), lambda: place.put("a/c", b"1"), lambda: place.delete(["b"]),
    lambda: place.get("a/b"), lambda: place.paths("a"),
):
    try:
        act()
        print("not refused")
    except LakeError as error:
        print(bool(error.path), error.hint)
"""


def test_a_folder_without_permission_is_reported_with_a_hint() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        place = object_store.opened(name)
        place.put("a/b", b"1")
        place.put("b", b"1")
        (folder / "a").chmod(0o000)
        folder.chmod(0o555)
        try:
            done = subprocess.run(
                [sys.executable, "-c", REFUSED, name], check=True, capture_output=True, text=True
            )
        finally:
            folder.chmod(0o755)
            (folder / "a").chmod(0o755)
    folder_hint = "True check who owns the folder, and whether this user may write to it"
    files_hint = "True check who owns the files"
    assert done.stdout.splitlines() == [
        folder_hint,
        folder_hint,
        folder_hint,
        files_hint,
        files_hint,
    ]


KILLED = """
import os, signal, sys
from pathlib import Path
from reconciler.evidence.store.files import local_files as local
def write_and_die(step, path):
    count = 0
    def dying(act):
        def run(*given, **named):
            nonlocal count
            if count == step:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1
            return act(*given, **named)
        return run
    for name in ("open", "fsync", "link", "mkdir", "fdopen", "unlink", "replace", "rename"):
        setattr(os, name, dying(getattr(os, name)))
    local.write(path, b"new" * 1000, create=sys.argv[2] == "create")
for step in range(40):
    if os.fork() == 0:
        try:
            write_and_die(step, Path(sys.argv[1], str(step), "deep", "file"))
        except BaseException:
            os._exit(1)
        os._exit(0)
    status = os.wait()[1]
    if status != signal.SIGKILL:
        break
print(step, status)
"""


@pytest.mark.parametrize("mode", ["create", "replace"])
def test_a_writer_that_is_killed_at_any_step_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, mode: str
) -> None:
    for step in range(40):
        path = tmp_path / str(step) / "deep" / "file"
        if mode == "create":
            path.parents[1].mkdir()
        else:
            path.parent.mkdir(parents=True)
            path.write_bytes(b"old")
    command = [sys.executable, "-c", KILLED, str(tmp_path), mode]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    last, status = map(int, done.stdout.split())
    assert status == 0
    assert last > 5
    for step in range(last + 1):
        folder = tmp_path / str(step)
        path = folder / "deep" / "file"
        place = object_store.opened(str(folder))
        visible = [name for name in place.paths() if not name.endswith(".new")]
        content = path.read_bytes() if path.exists() else None
        assert visible in ([], ["deep/file"])
        assert content in ((None, b"new" * 1000) if mode == "create" else (b"old", b"new" * 1000))
        place.put("deep/file", b"again", create=content is None)
        assert place.get("deep/file") == b"again"


class Web(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    def handler(*arguments: object) -> Web:
        return Web(*arguments, directory=str(tmp_path))

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_web_address_is_readable_and_never_written_or_listed(web: str, tmp_path: Path) -> None:
    (tmp_path / "LATEST.json").write_bytes(b"{}")
    place = object_store.opened(web)
    assert place.get("LATEST.json") == b"{}"
    assert place.find("nothing") is None
    for act in (lambda: place.put("x", b""), lambda: place.delete(["x"]), place.paths):
        with pytest.raises(LakeError):
            act()


def test_an_unreachable_address_is_an_error_with_a_hint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(object_store, "TRIES", 0)
    (port,) = free_ports(1)
    place = object_store.opened(f"http://127.0.0.1:{port}/x")
    with pytest.raises(LakeError, match="could not be reached") as caught:
        place.get("LATEST.json")
    assert caught.value.hint


def test_object_stores_read_credentials_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(LakeError, match="no storage account is known") as caught:
        object_store.opened("az://container/x")
    assert caught.value.hint == "set AZURE_STORAGE_ACCOUNT_NAME"
    assert object_store.opened("s3://bucket/x").redacted_address == "s3://bucket/x"
    assert object_store.opened("s3a://bucket/x").uri("y") == "s3a://bucket/x/y"
