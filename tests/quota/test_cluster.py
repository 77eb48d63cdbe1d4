import pytest

from reconciler.quota.state import Cluster


@pytest.mark.parametrize(
    ("rights", "may_alter"),
    [(None, False), (frozenset(), False), (frozenset({"AlterConfigs", "DescribeConfigs"}), True)],
)
def test_altering_requires_the_right_to_alter_configs(
    rights: frozenset[str] | None, may_alter: bool
) -> None:
    cluster = Cluster(id="c", nodes=(), rights=rights, version_hint="4.1+", behaves_as="4.x")
    assert cluster.may_alter is may_alter
