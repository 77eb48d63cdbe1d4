"""docs/recorded-use-operations.md has each decoder, and examples that the program reads."""

from pathlib import Path

from reconciler.evidence.ingest.dialect import DECODERS
from reconciler.evidence.ingest.points import REPLICA_LABELS

PAGE = Path(__file__).parents[3] / "docs" / "recorded-use-operations.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_every_decoder_and_replica_label_is_documented() -> None:
    assert [name for name in (*DECODERS, *REPLICA_LABELS) if f"`{name}`" not in TEXT] == []
