"""The file that the inventories of a run share: read once, and equal to the encoding of all its clusters."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from reconciler.base.durable_files import DurableFiles
from reconciler.inventory.file import RecordsFile
from reconciler.inventory.format import ClusterRecords, decode, encode
from reconciler.quota.ownership import OwnershipRecords
from tests.inventory.samples import CHANGES


class CountedReads(DurableFiles):
    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def read(self, path: Path, *, max_bytes: int) -> bytes:
        self.count += 1
        return super().read(path, max_bytes=max_bytes)


def records(cluster_id: str, length: int) -> ClusterRecords:
    owned = OwnershipRecords(cluster_id=cluster_id).with_changes(CHANGES[:length])
    return ClusterRecords(owned=owned)


def test_a_run_reads_the_file_once_however_many_clusters_it_writes(tmp_path):
    path = tmp_path / "records.json"
    path.write_bytes(encode({"another": records("another", 1)}))
    files = CountedReads()
    file = RecordsFile(path, files=files)
    for number in range(20):
        cluster_id = f"cluster-{number}"
        assert cluster_id not in file.read()
        file.replace(cluster_id, records(cluster_id, 1))
    assert files.count == 1
    assert len(decode(path.read_bytes(), location="records")) == 21


WRITES = st.lists(
    st.tuples(
        st.sampled_from(("a", "b", "c")), st.integers(1, len(CHANGES)), st.sampled_from((0, 1))
    ),
    min_size=1,
    max_size=12,
)


@given(WRITES)
def test_after_each_write_of_either_process_the_file_is_the_encoding_of_all_clusters(
    tmp_path_factory, writes
):
    path = tmp_path_factory.mktemp("records") / "records.json"
    processes = RecordsFile(path), RecordsFile(path)
    expected: dict[str, ClusterRecords] = {}
    for cluster_id, length, process in writes:
        file = processes[process]
        assert encode(file.read()) == encode(expected)
        expected[cluster_id] = records(cluster_id, length)
        file.replace(cluster_id, expected[cluster_id])
        assert path.read_bytes() == encode(expected)
