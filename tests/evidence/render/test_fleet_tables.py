"""Reports over fleets as text: every part is present, foreign names are escaped, counts state what is left out."""

import json
import math

from reconciler.evidence.render.report_json import report_document
from reconciler.evidence.render.report_text import report_markdown, report_text
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.entity_forms import canonical_parts_text, canonical_text
from reconciler.render.json_values import dump
from reconciler.usage.reports.fleet import (
    ClusterTotals,
    ConflictRow,
    EffectiveRow,
    FleetReport,
    LimitChangeRow,
    PlannedRow,
    UnusedLimitRow,
)

ALICE = canonical_text(entity(user="alice|<b>\x1b[31m", client_id=DEFAULT))
KEY = "producer_byte_rate"
REPORT = FleetReport(
    about="plan",
    clusters=(
        ClusterTotals(
            cluster_id="c1",
            look_ms=1_793_491_200_000,
            counts={"removals": 3, "in_sync": 0},
            violations=("3 removals are more than the 1 that are allowed",),
        ),
    ),
    effective=(
        EffectiveRow(
            cluster_id="c1",
            user="a",
            client_id="",
            ip="",
            quota_key=KEY,
            value=math.nan,
            quota_units=None,
            level=3,
            source_entity=ALICE,
        ),
        EffectiveRow(
            cluster_id="c1",
            user="b",
            client_id="",
            ip="",
            quota_key=KEY,
            value=None,
            quota_units=None,
            level=None,
            source_entity="",
        ),
    ),
    dead=(
        UnusedLimitRow(
            cluster_id="c1",
            entity_json=ALICE,
            quota_key=KEY,
            value=10.0,
            reason="never_seen",
            last_effective_ms=None,
        ),
    ),
    planned=(
        PlannedRow(
            cluster_id="c1",
            entity_json=ALICE,
            level=2,
            quota_key=KEY,
            action="update",
            cause="Spec",
            before=1048576.0,
            after=2.0,
            document="team/one",
            path="a.yaml",
            line=3,
        ),
    ),
    conflicts=(
        ConflictRow(
            cluster_id="c1",
            entity_json=ALICE,
            quota_key=KEY,
            value=10.0,
            document="team/two",
            path="b.yaml",
            line=9,
        ),
    ),
    changed=(
        LimitChangeRow(
            cluster_id="c1",
            entity_json=canonical_parts_text([("client-id-prefix", "p")]),
            quota_key="tenant_rate",
            from_ms=1_793_491_200_000,
            from_after_ms=0,
            to_ms=None,
            before=None,
            after=7.0,
            cause="first-seen",
            commit="",
            writer="",
        ),
    ),
    left_out={"plan_row": 41},
    notes=("c2 was never looked at",),
)


def test_the_text_has_every_part_and_the_number_of_omitted_rows() -> None:
    text = report_text(REPORT)
    assert text.splitlines()[0].startswith("1 cluster: 42 changes, 1 claim in conflict")
    assert text.splitlines()[0].endswith("1 violation of guards")
    for part in (
        "c2 was never looked at",
        "removals 3",
        "b.yaml:9",
        "1048576 (1 MiB/s)",
        "never_seen",
        "tenant_rate",
        "unlimited",
        "and 41 more rows, in the lake",
        "client-id-prefix",
    ):
        assert part in text
    assert "in_sync" not in text
    assert "\x1b" not in text


def test_names_cannot_forge_markdown() -> None:
    text = report_markdown(REPORT)
    assert "<b>" not in text.replace("`", "") or "\\<b" in text or "&lt;b" in text
    row = next(line for line in text.splitlines() if "update" in line)
    assert row.replace("\\|", "").count("|") == 9


def test_the_json_has_the_columns_of_the_tables_and_texts_for_values_that_json_cannot_represent() -> (
    None
):
    document = json.loads(dump(report_document(REPORT)))
    assert (document["kind"], document["format"]) == ("kquota-fleet", 1)
    assert document["effective"][0]["value"] == "NaN"
    assert document["planned"][0]["after"] == 2
    assert document["left_out"] == {"plan_row": 41}
    assert REPORT.is_refused
