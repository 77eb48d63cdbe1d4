"""docs/recorded-use-operations.md has each decoder, and examples that the program reads."""

import re
from pathlib import Path

import yaml

from reconciler.evidence.ingest.cluster_sources import source_of
from reconciler.evidence.ingest.dialect import DECODERS
from reconciler.evidence.ingest.points import REPLICA_LABELS
from reconciler.manifest.project.cluster import from_spec

PAGE = Path(__file__).parents[3] / "docs" / "recorded-use-operations.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_every_decoder_and_replica_label_is_documented() -> None:
    assert [name for name in (*DECODERS, *REPLICA_LABELS) if f"`{name}`" not in TEXT] == []


def test_the_example_of_a_cluster_is_read() -> None:
    (block,) = re.findall(
        r"```yaml\n(apiVersion: [^\n]*\nkind: QuotaCluster\n.*?)```", TEXT, re.DOTALL
    )
    source = source_of(from_spec("orders", yaml.safe_load(block)["spec"]))
    assert source.cadence.step_ms == 10_000
    assert source.broker_rule is not None
    assert source.broker_rule.of({"pod": "kafka-3"}) == "3"
