"""The examples for recorded use fit together: the scrape job reaches the agent; the nightly workflow runs."""

import re
from pathlib import Path

import pytest
import yaml

from reconciler.app.recorded_use.ingest import source
from reconciler.app.recorded_use.selection import ClusterSelection, IngestOptions, WindowOptions
from reconciler.manifest.project.file import parse
from reconciler.usage.recommendation.limit_sizes import BATCH, GOLD, SILVER

TREE = Path(__file__).parents[2]
EXAMPLES, DOCS = TREE / "examples", TREE / "docs"
AGENT = re.compile(r'-javaagent:\S+\.jar=(?:(?P<host>\S+):)?(?P<port>\d+):\S+\.yml"')


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "path", ["examples/telemetry/jmx_exporter.yml", "docs/recorded-use-operations.md"]
)
def test_the_agent_listens_on_the_port_of_the_scrape_job(path: str) -> None:
    agent = AGENT.search(text(TREE / path))
    assert agent is not None
    (job,) = yaml.safe_load(text(EXAMPLES / "telemetry" / "prometheus.yml"))["scrape_configs"]
    targets = [
        target.split(":") for config in job["static_configs"] for target in config["targets"]
    ]
    assert agent["host"] is None, "another machine asks"
    assert {port for _, port in targets} == {agent["port"]}
    assert "let only Prometheus through" in text(TREE / path).replace("\n# ", " ")


def test_the_project_of_the_documents_suffices_for_the_nightly_workflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow = text(EXAMPLES / "github" / "evidence.yml")
    names = set(re.findall(r"--cluster (\S+)", workflow))
    page = text(DOCS / "pull-requests.md")
    project = re.findall(r"```yaml\n(apiVersion:.*?kind: QuotaProject.*?)```", page, re.DOTALL)[0]
    telemetry = re.findall(r"```yaml\n(.*?)```", text(DOCS / "recorded-use.md"), re.DOTALL)[0]
    assert "expectedClusterId: " in telemetry
    more = telemetry[telemetry.index("   telemetry:") :].replace("\n   ", "\n  ")[1:]
    (tmp_path / "kquota.yaml").write_text(project + more, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in names:
        clusters = ClusterSelection(names=(name,))
        (cluster,) = clusters.select()
        options = IngestOptions(lake="lake", clusters=clusters, window=WindowOptions())
        new_source = source(cluster, options)
        assert new_source.cadence.step_ms == 10_000
        assert new_source.address.startswith("http://")
        assert new_source.evidence_uri.startswith("s3://")
    assert parse(project).cluster("prod").cluster.expected_cluster_id


@pytest.mark.parametrize(
    "path",
    [
        "github/evidence.yml",
        "github/recommendations.yml",
        "github/quotas-comment.yml",
        "gitlab/.gitlab-ci.yml",
    ],
)
def test_kquota_is_pinned_by_a_commit_that_the_reader_chooses(path: str) -> None:
    pins = re.findall(r'(?:reconciler/\S+@|COMMIT: ")([0-9a-f]+)"?(.*)', text(EXAMPLES / path))
    assert pins == [("0" * 40, "   # pin the release you use")]


def test_the_figures_of_the_default_tiers_equal_those_of_sizing() -> None:
    page = text(DOCS / "recorded-use.md")
    assert "(0.1 % of the time and 60 s; 0.5 % and 10 min; 1 %)" in page
    assert [(tier.share_ppm, tier.max_delay_ms) for tier in (GOLD, SILVER, BATCH)] == [
        (1_000, 60_000),
        (5_000, 600_000),
        (10_000, None),
    ]
