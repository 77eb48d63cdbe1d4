"""Rules that probably match no client, or all clients, by mistake."""

import pytest
from msgspec.structs import replace

from reconciler.quota.entity import DEFAULT, Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.planner.desired_state import Declaration, merge
from reconciler.quota.rule_warnings import (
    AcceptedWarning,
    WarningKind,
    warnings,
)
from reconciler.quota.state import QuotaState, limits_of

RATE, SHARE = Key.PRODUCER_BYTE_RATE, Key.REQUEST_PERCENTAGE


def document(subject: Entity, line: int = 1, **limits: float) -> Declaration:
    return Declaration(
        document=f"t/{line}",
        entity=subject,
        limits=limits_of(
            {Key(key): v for key, v in (limits or {"producer_byte_rate": 1e6}).items()}
        ),
        path="a.yaml",
        line=line,
        lines=(line + 3, 0, 0, 0, 0),
    )


def warnings_of(*documents: Declaration, live: QuotaState | None = None) -> list[tuple[str, str]]:
    return [(warning.place, warning.message) for warning in warnings(merge(documents), live)]


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        (entity(user="User:alice"), "without `User:`"),
        (entity(user="*"), "no wildcards"),
        (entity(user="<default>"), "the default user is {default: true}"),
        (entity(user=DEFAULT, client_id="<default>"), "the default client-id is {default: true}"),
        (entity(user="team-*"), "no wildcards"),
        (entity(user="alice", client_id="app-*"), "client-id 'app-*'"),
        (entity(user="CN=alice, OU=team"), "no blank after a comma"),
        (entity(user="CN=alice,OU=team,  O=org"), "no blank after a comma"),
        (entity(user="CN = alice,O=org"), "around `=`"),
        (entity(user="CN=alice,O = org"), "around `=`"),
        (entity(user="CN= alice"), "around `=`"),
        (entity(user="CN=alice,O= org"), "around `=`"),
        (entity(user="2.5.4.3=alice, 2.5.4.10=org"), "no blank after a comma"),
        (entity(user="OID.2.5.4.3=alice, O=org"), "no blank after a comma"),
        (entity(user="CN=alice,OID.2.5.4.10 = org"), "around `=`"),
        (entity(user="CN=Ann\\, Lee, O=org"), "no blank after a comma"),
        (entity(client_id="app"), "all users with this client-id share one limit"),
    ],
)
def test_a_doubtful_name_causes_a_warning(subject, words):
    ((place, message),) = warnings_of(document(subject, line=7))
    assert words in message
    assert place == "a.yaml:7"


# ---- accepted ------------------------------------------------------------------------------------

WILDCARD = document(entity(user="team-*"), 3)


def accepted(
    *documents: Declaration, project: tuple[AcceptedWarning, ...] = ()
) -> list[tuple[str, str]]:
    return [
        (str(warning.kind), warning.accepted)
        for warning in warnings(merge(documents), accepted=project)
    ]


def test_a_document_accepts_its_own_warning_with_a_reason():
    assert accepted(replace(WILDCARD, accepted=(("wildcard", "a literal name"),))) == [
        ("wildcard", "a literal name")
    ]
    assert accepted(replace(WILDCARD, accepted=(("shared-client-id", "why not"),))) == [
        ("wildcard", "")
    ]


@pytest.mark.parametrize(
    ("document_pattern", "reason"), [("t/3", "INC-7"), ("t/*", "INC-7"), ("t/4", ""), ("u/*", "")]
)
def test_a_project_accepts_a_warning_about_a_document_or_a_namespace(document_pattern, reason):
    rule = AcceptedWarning(kind=WarningKind.WILDCARD, document=document_pattern, reason="INC-7")
    assert accepted(WILDCARD, project=(rule,)) == [("wildcard", reason)]


def test_an_acceptance_without_a_reason_or_of_an_unknown_warning_is_a_warning_itself():
    blank = replace(WILDCARD, accepted=(("wildcard", "  "),))
    assert sorted(accepted(blank)) == [("acceptance", ""), ("wildcard", "")]
    (unknown,) = [
        warning
        for warning in warnings(merge([replace(WILDCARD, accepted=(("wildcards", "typo"),))]))
        if warning.kind is WarningKind.ACCEPTANCE
    ]
    assert "'wildcards', which is not a warning" in unknown.message
