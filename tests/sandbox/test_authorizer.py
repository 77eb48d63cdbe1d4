"""Rights and their bits."""

from reconciler.sandbox.authorizer import OPEN, READER, RECONCILER, Authorizer, Operation

ACLS = Authorizer(
    grants={"planner": READER, "applier": RECONCILER, "boss": frozenset({Operation.ALTER})}
)


def test_altering_configs_includes_describing_them() -> None:
    assert ACLS.allows("applier", Operation.DESCRIBE_CONFIGS)
    assert not ACLS.allows("planner", Operation.ALTER_CONFIGS)
    assert ACLS.allows("boss", Operation.DESCRIBE)


def test_strangers_may_do_what_others_may() -> None:
    assert ACLS.rights("stranger") == frozenset()
    assert OPEN.rights("stranger") == frozenset(Operation)
    assert Authorizer(default_operations=READER).allows("stranger", Operation.DESCRIBE)


def test_bits_are_those_of_a_broker() -> None:
    assert OPEN.bits("anybody") == 8096
    assert ACLS.bits("planner") == 1280
    assert ACLS.bits("applier") == 3328


def test_who_may_not_describe_is_shown_no_bit() -> None:
    assert ACLS.bits("stranger") == 0
    assert Authorizer(grants={"a": frozenset({Operation.ALTER_CONFIGS})}).bits("a") == 0
