"""The fast validator and the one that words the errors have one verdict."""

from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.manifest import explanation, schema
from tests.manifest.samples import cluster
from tests.manifest.test_document import junk
from tests.manifest.test_explanation import CLUSTER_FIELDS, pieces


@given(
    st.sampled_from(("spec", "metadata", "kind", "odd")),
    st.dictionaries(st.sampled_from(CLUSTER_FIELDS), pieces, max_size=5) | junk,
)
@example("spec", {"interval": "90s\n"})
@example("spec", {"guards": {"maxRemovals": 5.0}})
def test_what_the_fast_validator_accepts_has_no_problem_in_jsonschema(field, value) -> None:
    document = {**cluster(), field: value}
    spec = cluster()["spec"] | value if field == "spec" and isinstance(value, dict) else value
    document[field] = spec
    errors = list(explanation._validator("QuotaCluster").iter_errors(document))
    if schema.is_accepted("QuotaCluster", document):
        assert not errors
    else:
        assert errors or schema._has_unusual(document)
