"""Objects of the previous operator in Kubernetes and in Kafka, as it wrote them.

Users alice, bob and dave have limits as declared, dave's below an override; erin's limit was changed by another writer,
frank's document is suspended, carol's was deleted and left its limit, the limit of another was removed.
"""

import json
from pathlib import Path
from typing import Any, Final

PREVIOUS: Final = Path(__file__).parent / "previous"
"""Written by the program of commit a19575f; the chart is from that commit, too."""

CHART: Final = PREVIOUS / "kafka-quota-reconciler-0.1.0.tgz"
CLUSTER_ID: Final = "previousVersionAAAAAAA"
TEAM: Final = "test-84f60a035f"
"""Namespace of the documents, which records contain."""

OBJECTS: Final[dict[str, list[Any]]] = json.loads((PREVIOUS / "objects.json").read_text())
"""`clientquotas`, `quotaclusters`, `configmaps`, and `live`: entity and values."""
