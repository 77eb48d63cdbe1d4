"""A document as its file writes it: found by its place, in lists and among others, with what declarations leave out."""

from reconciler.manifest.loader import load_files
from reconciler.manifest.source_document import find_document
from tests.manifest.samples import HEAD

TWO = f"""# first
---
{HEAD}  entity: {{user: {{name: a}}}}
  limits: {{producerByteRate: 1Mi}}
---
apiVersion: v1
kind: List
items:
- apiVersion: kafka-quotas.io/v1alpha1
  kind: ClientQuota
  metadata:
    name: b
    annotations: {{why: "because\\nof b"}}
    labels: &common {{team: payments}}
  spec:
    clusterRef: {{name: prod}}
    entity: {{user: {{name: b}}}}
    limits: {{producerByteRate: 2Mi}}
- {{apiVersion: kafka-quotas.io/v1alpha1, kind: ClientQuota, metadata: {{name: b, labels: *common}}, spec: {{clusterRef: {{name: staging}}, entity: {{user: {{name: b}}}}, limits: {{producerByteRate: 3Mi}}}}}}
"""


def test_each_document_is_found_at_its_place() -> None:
    loaded = load_files([("f", TWO)]).checked()
    several = [(name, one) for name, each in loaded.by_cluster.items() for one in each]
    assert len(several) == 3
    for cluster, one in several:
        found = find_document(TWO, cluster, one)
        assert found is not None
        assert (found.cluster, found.declaration) == (cluster, one)
    b = loaded.of("prod")[1]
    found = find_document(TWO, "prod", b)
    assert found is not None
    assert found.annotations == {"why": "because\nof b"}
    assert found.labels == {"team": "payments"}


def test_what_is_not_there_is_not_found() -> None:
    (one, _) = load_files([("f", TWO)]).of("prod")
    assert find_document(TWO, "staging", one) is None
    assert find_document("\n" + TWO, "prod", one) is None
    assert find_document("", "prod", one) is None
