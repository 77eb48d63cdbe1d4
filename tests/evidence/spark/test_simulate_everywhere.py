"""The job `simulate` through Spark Connect and on two executors by spark-submit: the rows that the core gives, verdict by verdict."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

import reconciler.spark
from reconciler.codecs.state import state_document
from reconciler.evidence.spark.usage import candidate_plans
from reconciler.evidence.spark.usage.candidate_plans import (
    CandidateLimits,
    SimulationRequest,
)
from reconciler.render.json_values import dump
from reconciler.usage.samples import DAY_MS, day_of
from reconciler.usage.tables import IMPACT_ROW
from tests.evidence.spark import lakes, replays
from tests.servers import spark as servers
from tests.usage import whatif_cases

pytestmark = pytest.mark.integration

FROM = whatif_cases.START_MS // DAY_MS * DAY_MS
TO = FROM + 2 * DAY_MS
MAIN = Path(reconciler.spark.__file__).with_name("__main__.py")


def _fleets() -> list[whatif_cases.Case]:
    """Those whose limits can stand in a snapshot: JSON has no NaN."""
    found = [whatif_cases.case(number) for number in range(20)]
    return [one for one in found if all(math.isfinite(value) for _, _, value in one.after.pairs())][
        :5
    ]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    lake = replays.filled(tmp_path_factory.mktemp("core"), _fleets(), whatif_cases.CADENCE)
    wanted = tuple(CandidateLimits(cluster_id=one.cluster_id, state=one.after) for one in _fleets())
    _ = candidate_plans.by_core(lake, SimulationRequest(candidates=wanted, from_ms=FROM, to_ms=TO))
    return lakes.rows_of(lake, IMPACT_ROW)


def _words(folder: Path) -> list[str]:
    """A lake in a folder, and what the job is asked there."""
    _ = replays.filled(folder / "lake", _fleets(), whatif_cases.CADENCE)
    words = [
        "simulate",
        "--lake",
        str(folder / "lake"),
        "--to-day",
        str(day_of(TO - 1)),
        "--days",
        "2",
    ]
    for one in _fleets():
        path = folder / f"{one.cluster_id}.json"
        path.write_text(dump(state_document(one.after, cluster_id=one.cluster_id, taken_at="")))
        words += ["--after", str(path)]
    return words


def _assert_told(out: str, folder: Path, expected: list[dict[str, object]]) -> None:
    told = json.loads(out[out.index("{") :])
    assert len(told["rows"]) + told["left_out"] == len(expected) > 10
    assert lakes.rows_of(lakes.lake(folder / "lake"), IMPACT_ROW) == expected


def test_through_a_connect_server(
    connect: servers.ConnectServer, tmp_path: Path, expected: list[dict[str, object]]
) -> None:
    words = [
        sys.executable,
        "-m",
        "reconciler.spark",
        *_words(tmp_path),
        "--remote",
        connect.remote,
    ]
    done = subprocess.run(
        words,
        cwd=servers.TREE,
        capture_output=True,
        text=True,
        timeout=servers.JOB_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:] + connect.log()
    _assert_told(done.stdout, tmp_path, expected)


def test_on_two_executors(
    cluster: servers.StandaloneCluster,
    wheel: Path,
    tmp_path: Path,
    expected: list[dict[str, object]],
) -> None:
    done = cluster.submit(MAIN, _words(tmp_path), package=wheel)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    _assert_told(done.stdout, tmp_path, expected)
