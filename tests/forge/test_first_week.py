"""The first week: `kquota init --workflows github` in an empty repository, then pull requests that add and delete a limit."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.projects import quota
from tests.forge import openapi
from tests.forge.code_host import Workbench
from tests.forge.github_api import GitHubApi
from tests.render.previews import golden
from tests.servers import raw_quotas

pytestmark = pytest.mark.integration

RELEASE = "5" * 40
LIMIT = quota("checkout", "{producerByteRate: 20Mi}")
VARIES = (
    (re.compile(r"[0-9a-f]{64}"), "DIGEST"),
    (re.compile(r"`[0-9a-f]{12}`"), "`COMMIT`"),
    (re.compile(r"20\d\d-\d\d-\d\dT[0-9:]+Z"), "TIME"),
    (re.compile(r"/runs/\d+"), "/runs/N"),
    (re.compile(r"cluster [A-Za-z0-9_-]{22}"), "cluster ID"),
    (re.compile(r"\b[\w.-]+@[\w.-]+"), "AUTHOR"),
)


def with_names(text: str) -> str:
    """The text without values that differ from run to run."""
    for pattern, name in VARIES:
        text = pattern.sub(name, text)
    return text


@pytest.fixture
def api():
    with GitHubApi(openapi.github()) as running:
        yield running
    assert running.complaints == []


def initialized(folder: Path, api: GitHubApi, bootstrap: str) -> Workbench:
    """An empty repository after `kquota init`, with what it printed to be set, for brokers without TLS and login."""
    bench = Workbench(folder, api, bootstrap)
    bench.workflows, bench.pin = bench.repository / ".github" / "workflows", RELEASE
    words = f"init --bootstrap-server {bootstrap} --cluster prod --policy Upsert --workflows github"
    kquota = [str(Path(sys.executable).parent / "kquota"), *shlex.split(words)]
    done = subprocess.run(
        kquota,
        cwd=bench.repository,
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    golden("first-week/init.txt", done.stderr.replace(bootstrap, "HOST:PORT"))
    assert max(map(len, done.stderr.splitlines())) <= 90
    (edit,) = re.findall(r"^ +(sed .*)$", done.stderr, re.MULTILINE)
    edit = edit.replace("COMMIT", RELEASE)
    _ = subprocess.run(["bash", "-c", edit], cwd=bench.repository, check=True)
    project = bench.repository / "kquota.yaml"
    text = re.sub(r"  properties:.*\n(    .*\n)+", "", project.read_text())
    _ = project.write_text(text)
    bench.git("checkout", "-q", "-b", "main")
    _ = bench.commit("kquota init")
    return bench


def limits(port: int) -> dict[str, float]:
    """User -> producer rate."""
    return {
        dict(subject)["user"]: values["producer_byte_rate"]
        for subject, values in raw_quotas.describe(port).items()
    }


def test_a_limit_is_added_deleted_with_its_document_and_removed_as_the_comment_says(
    tmp_path, api, sandbox
):
    bench = initialized(tmp_path, api, sandbox.bootstrap)
    port = int(sandbox.bootstrap.rpartition(":")[2])

    def merged(number: int, *files: tuple[str, str | None]) -> tuple[str, str]:
        """The comments on plan and apply of a pull request with these files; no text = deleted."""
        bench.branch(f"change-{number}")
        for name, text in files:
            if text is None:
                (bench.repository / name).unlink()
            else:
                (bench.repository / name).write_text(text)
        _ = bench.commit()
        _ = bench.propose(number, f"change-{number}")
        planned = bench.plan(number)
        assert planned.ok, planned.log
        applied = bench.push(bench.squash(number))
        assert applied.ok, applied.log
        plan, outcome = map(with_names, api.bodies(number))
        return plan, outcome

    place = "quotas/checkout.yaml"
    bench.branch("invalid")
    _ = (bench.repository / place).write_text(LIMIT.replace("20Mi", "20 MB"))
    _ = bench.commit()
    _ = bench.propose(1, "invalid")
    planned = bench.plan(1)
    assert not planned.ok
    assert f"::error title=Kafka quotas prod,file={place},line=" in planned.log
    golden("first-week/1-invalid.md", with_names(api.bodies(1)[0]))

    plan, outcome = merged(2, (place, LIMIT))
    golden("first-week/2-first.md", plan)
    golden("first-week/2-first-applied.md", outcome)
    assert limits(port) == {"checkout": 20971520.0}

    plan, outcome = merged(3, (place, None))
    golden("first-week/3-deleted.md", plan)
    golden("first-week/3-deleted-applied.md", outcome)
    assert limits(port) == {"checkout": 20971520.0}

    plan, _ = merged(4, (place, LIMIT.replace("spec:\n", "spec:\n  deletionPolicy: Delete\n")))
    golden("first-week/4-restored.md", plan)
    plan, _ = merged(5, (place, None))
    golden("first-week/5-removed.md", plan)
    assert limits(port) == {}
