"""Manifests that two processes load are those that one process loads; whatever is wrong is left to one process."""

import os
import resource
import signal
import threading
import time
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.app.clusters.documents import WORTH_SHARING, load_in_two
from reconciler.manifest.loader import load_files
from tests.servers.processes import HANG_SECONDS

DOCUMENT = """\
apiVersion: kafka-quotas.io/v1alpha1
kind: ClientQuota
metadata: {{name: {name}, namespace: team}}
spec:
  clusterRef: {{name: {cluster}}}
  entity: {{user: {{name: {name}}}}}
  limits: {{producerByteRate: {rate}}}
"""


def document(name: str, cluster: str = "prod", rate: str = "1024") -> str:
    return DOCUMENT.format(name=name, cluster=cluster, rate=rate)


def files_of(*texts: str) -> tuple[tuple[str, str], ...]:
    return tuple((f"{at}.yaml", text) for at, text in enumerate(texts))


def in_two(*texts: str, clusters=None):
    """What two processes load; the thread by which a test runner talks to its workers holds no lock of the loader."""
    return load_in_two(files_of(*texts), clusters=clusters, least=0, count_threads=lambda: 1)


@given(st.lists(st.lists(st.sampled_from(("prod", "lab")), max_size=3), min_size=2, max_size=6))
def test_two_processes_load_what_one_loads(files):
    texts = [
        "---\n".join(document(f"d{at}-{n}", cluster) for n, cluster in enumerate(clusters))
        for at, clusters in enumerate(files)
    ]
    loaded = in_two(*texts)
    assert loaded == load_files(files_of(*texts))
    assert list(loaded.by_cluster) == list(load_files(files_of(*texts)).by_cluster)


GOOD = (document("a"), document("b"), document("c"), document("d"))


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize(
    "text", [document("x", rate="nothing"), "a: [", document("b") + "---\n" + document("b")]
)
def test_files_with_a_problem_are_left_to_one_process(at, text):
    texts = [*GOOD[:at], text, *GOOD[at + 1 :]]
    assert in_two(*texts) is None
    assert load_files(files_of(*texts)).problems


def test_a_document_of_both_processes_is_left_to_one():
    assert in_two(*GOOD, document("a")) is None


def test_a_cluster_that_is_not_known_is_left_to_one_process():
    assert in_two(*GOOD, clusters={"lab": {}}) is None


def test_few_files_are_left_to_one_process():
    assert load_in_two(files_of(*GOOD)) is None
    assert load_in_two(files_of("#" * WORTH_SHARING)) is None


def test_a_process_with_a_second_thread_is_not_forked():
    end = threading.Event()
    thread = threading.Thread(target=end.wait, args=(HANG_SECONDS,))
    thread.start()
    try:
        assert load_in_two(files_of(*GOOD), least=0) is None
    finally:
        end.set()
        thread.join()


class EndsTheFork(Mapping[str, Mapping[str, str]]):
    """Labels of clusters that end the process which is not the one of the test."""

    def __init__(self) -> None:
        self.process = os.getpid()

    def __getitem__(self, name: str) -> Mapping[str, str]:
        if os.getpid() != self.process:
            os.kill(os.getpid(), signal.SIGTERM)
        return {}

    def __iter__(self):
        return iter(("prod",))

    def __len__(self) -> int:
        return 1


def test_after_the_end_of_the_second_process_one_process_loads_all():
    before = signal.getsignal(signal.SIGTERM), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert in_two(*GOOD, clusters=EndsTheFork()) is None
    assert (
        signal.getsignal(signal.SIGTERM),
        signal.pthread_sigmask(signal.SIG_BLOCK, ()),
    ) == before


class WaitsInTheFork(EndsTheFork):
    """Labels of clusters that let the other process write its id to a pipe and wait."""

    def __init__(self, pipe: int) -> None:
        super().__init__()
        self.pipe = pipe

    def __getitem__(self, name: str) -> Mapping[str, str]:
        if os.getpid() != self.process:
            os.write(self.pipe, b"%d\n" % os.getpid())
            time.sleep(HANG_SECONDS)
        return {}


def test_an_interruption_of_this_process_ends_the_second_one_and_leaves_nothing():
    reading, writing = os.pipe()
    second_process: list[int] = []

    def interrupt(count: int) -> None:
        with os.fdopen(reading) as stream:
            second_process.append(int(stream.readline()))
        raise KeyboardInterrupt

    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with pytest.raises(KeyboardInterrupt):
        load_in_two(
            files_of(*GOOD),
            clusters=WaitsInTheFork(writing),
            progress=interrupt,
            least=0,
            count_threads=lambda: 1,
        )
    os.close(writing)
    with pytest.raises(ProcessLookupError):  # it has ended, and nobody still has to wait for it
        os.kill(second_process[0], 0)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == blocked
    assert os.dup(0) == reading, "a pipe is still open"
    os.close(reading)


def test_a_process_that_ignores_the_end_of_others_loads_all():
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert in_two(*GOOD) is None
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_without_a_free_file_descriptor_one_process_loads_all():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        loaded = in_two(*GOOD)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert loaded is None
