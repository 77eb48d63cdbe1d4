"""Text and files of a pull request with recommendations: golden text, limits of length, hostile names, bad folders."""

import html
import re
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.app.post.recommendations import proposal_of
from reconciler.app.recorded_use.recommended_files import MARK
from reconciler.app.requests import RecommendationsRequest
from reconciler.errors import UsageError
from reconciler.evidence.render.report_json import report_document
from reconciler.forge.pull_request import Proposal
from reconciler.render.json_values import dump
from reconciler.usage.recommendation.limit_sizes import Advice
from reconciler.usage.reports.usage import UsageReport
from reconciler.usage.tags import bucket_of
from tests.render.previews import golden
from tests.render.use_reports import EVIDENCE, EVIL, RECOMMENDATION

TEXT = f"{MARK}; each run replaces the whole file.\n---\nkind: ClientQuota\n"
REPORT = UsageReport(
    evidence=(replace(EVIDENCE, partial=("3 days are missing",)),),
    recommendations=(
        RECOMMENDATION,
        replace(RECOMMENDATION, bucket=bucket_of("bea"), advice=Advice.REFUSED, rules=()),
        replace(
            RECOMMENDATION, bucket=bucket_of("cy"), advice=Advice.INSUFFICIENT, target_units=None
        ),
    ),
)
LIMIT = 65_536


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with a file of recommendations for prod."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "proposals").mkdir()
    (tmp_path / "proposals" / "prod.yaml").write_text(TEXT)
    return tmp_path


def proposed(report: UsageReport = REPORT, *, limit: int = LIMIT, **options: object) -> Proposal:
    Path("report.json").write_text(dump(report_document(report)))
    request = {
        "document": Path("report.json"),
        "folder": Path("proposals"),
        "label": "prod",
        "title": "",
        "base": "",
        "details_url": "",
        "required": False,
        "api_url": "https://api.github.com",
    }
    return proposal_of(RecommendationsRequest(**(request | options)), limit=limit)


@pytest.mark.golden
def test_the_pull_request_text_is_the_report_with_its_evidence(checkout: Path) -> None:
    golden("recommendations.md", proposed(details_url="https://ci.example/run/1").body)


def test_title_branch_and_files_depend_on_the_options(checkout: Path) -> None:
    new = proposed()
    assert (new.title, new.branch) == (
        "Recommended Kafka quotas: prod",
        "kquota/recommendations-prod",
    )
    assert new.proposed.texts == {"proposals/prod.yaml": TEXT}
    (checkout / "infra").mkdir()
    (checkout / "proposals").rename(checkout / "infra" / "proposals")
    new = proposed(label="", title="Limits", folder=Path("infra/proposals/"))
    assert (new.title, new.branch) == ("Limits", "kquota/recommendations")
    assert list(new.proposed.texts) == ["infra/proposals/prod.yaml"]


def test_files_without_recommendations_are_not_included(checkout: Path) -> None:
    (checkout / "proposals" / "mine.yaml").write_text("kind: ClientQuota\n")
    (checkout / "proposals" / "notes.md").write_text(TEXT)
    assert list(proposed().proposed.files) == ["prod.yaml"]


@pytest.mark.parametrize("limit", [65_536, 20_000, 5_000, 1_500, 1_000])
def test_the_text_stays_within_the_limit_of_the_host(checkout: Path, limit: int) -> None:
    rows = [replace(RECOMMENDATION, bucket=bucket_of(f"user-{n}")) for n in range(700)]
    body = proposed(replace(REPORT, recommendations=tuple(rows)), limit=limit).body
    assert len(body) <= limit
    assert "Merging this applies nothing" in body
    assert re.search(r"… and [\d,]+ more rows|too long to show here", body)


def test_names_cannot_forge_markup(checkout: Path) -> None:
    row = replace(RECOMMENDATION, bucket=bucket_of(EVIL, EVIL), cluster_id=EVIL, tier=EVIL)
    evidence = replace(EVIDENCE, cluster_id=EVIL, partial=(EVIL,), counts={EVIL: 1})
    report = UsageReport(evidence=(evidence,), recommendations=(row,), notes=(EVIL, "/merge"))
    body = proposed(report).body
    outside = html.unescape(re.sub(r"<code>.*?</code>", "", re.sub(r"`[^`\n]*`", "", body)))
    assert not re.search(r"[@#!~$]\w", outside)
    assert "\u202e" not in body
    assert "<img" not in body
    assert not re.search(r"^/", body, re.MULTILINE), "no quick action of GitLab"


def test_a_report_without_its_files_is_refused_unless_nothing_is_recommended(
    checkout: Path,
) -> None:
    for folder in ("missing", "empty"):
        (checkout / "empty").mkdir(exist_ok=True)
        with pytest.raises(UsageError, match=f"{folder} has no file of kquota spark recommend"):
            proposed(folder=Path(folder))
        assert proposed(UsageReport(evidence=(EVIDENCE,)), folder=Path(folder)).proposed.files == {}


@pytest.mark.parametrize("path", ["..", "/nowhere/x", ".github/workflows", "a/../.."])
def test_a_path_outside_the_repository_is_refused(checkout: Path, path: str) -> None:
    with pytest.raises(UsageError, match="not a folder for recommendations"):
        proposed(UsageReport(evidence=(EVIDENCE,)), folder=Path(path))


def test_a_folder_that_cannot_be_read_is_an_error(checkout: Path) -> None:
    (checkout / "file").write_text("x")
    with pytest.raises(UsageError, match="file cannot be read"):
        proposed(folder=Path("file"))
    (checkout / "proposals" / "prod.yaml").write_text(TEXT + "#" * 2**20)
    with pytest.raises(UsageError, match="larger than"):
        proposed()


@pytest.mark.parametrize("title", ["two\nlines", "x" * 201, "\u202eevil"])
def test_a_title_is_one_line(checkout: Path, title: str) -> None:
    with pytest.raises(UsageError, match="--title is one line"):
        proposed(title=title)


def test_an_address_that_could_break_out_of_its_link_is_refused(checkout: Path) -> None:
    with pytest.raises(UsageError, match="not a plain web address"):
        proposed(details_url="https://x/)[a](b")
