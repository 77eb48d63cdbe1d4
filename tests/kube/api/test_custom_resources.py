"""Custom resources as values: a missing or malformed field never raises an exception, and versions are compared as numbers."""

from reconciler.kube.api.custom_resources import (
    API_VERSION,
    FINALIZER,
    GROUP,
    REQUESTED_AT,
)


def test_names_equal_those_of_the_crds() -> None:
    assert (GROUP, API_VERSION) == ("kafka-quotas.io", "kafka-quotas.io/v1alpha1")
    assert FINALIZER == "kafka-quotas.io/release"
    assert REQUESTED_AT == "kafka-quotas.io/requestedAt"
