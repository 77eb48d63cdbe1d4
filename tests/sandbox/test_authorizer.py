"""Tests of rights and their bits."""

from reconciler.sandbox.authorizer import OPEN, READER, RECONCILER, Authorizer, Operation

ACLS = Authorizer(
    grants={"planner": READER, "applier": RECONCILER, "boss": frozenset({Operation.ALTER})}
)


def test_the_right_to_alter_configs_includes_describing_them() -> None:
    assert ACLS.allows("applier", Operation.DESCRIBE_CONFIGS)
    assert not ACLS.allows("planner", Operation.ALTER_CONFIGS)
    assert ACLS.allows("boss", Operation.DESCRIBE)


def test_an_unknown_principal_has_the_default_rights() -> None:
    assert ACLS.rights("stranger") == frozenset()
    assert OPEN.rights("stranger") == frozenset(Operation)
    assert Authorizer(default_operations=READER).allows("stranger", Operation.DESCRIBE)


def test_operation_bits_equal_those_of_a_broker() -> None:
    assert OPEN.bits("anybody") == 8096
    assert ACLS.bits("planner") == 1280
    assert ACLS.bits("applier") == 3328


def test_a_principal_that_may_not_describe_gets_no_operation_bits() -> None:
    assert ACLS.bits("stranger") == 0
    assert Authorizer(grants={"a": frozenset({Operation.ALTER_CONFIGS})}).bits("a") == 0
