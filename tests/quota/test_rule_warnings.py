"""Rules that probably match no client, or all clients, by mistake."""

import pytest
from msgspec.structs import replace

from reconciler.quota.entity import DEFAULT, Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.patterns import EntityPattern, NamePattern
from reconciler.quota.planner.desired_state import Declaration, merge
from reconciler.quota.rule_warnings import (
    AcceptedWarning,
    FetchSize,
    WarningKind,
    WarningSettings,
    unmatched_names,
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


@pytest.mark.parametrize(
    "subject",
    [
        entity(user="alice"),
        entity(user="CN=alice,OU=team"),
        entity(user="alice, the admin"),
        entity(user="CN=alice, the admin,O=org"),
        entity(user="CN=Ann\\, Lee,O=Acme\\, Inc = all"),
        entity(user="2.5.4.3=alice,OID.2.5.4.10=org"),
        entity(user="1 = 1"),
        entity(user="a*b"),
        entity(user=DEFAULT),
        entity(client_id=DEFAULT),
        entity(user="alice", client_id="app"),
        entity(ip="10.0.0.1"),
    ],
)
def test_an_ordinary_rule_causes_no_warning(subject):
    assert warnings_of(document(subject)) == []


def test_a_rule_shadowed_by_another_document_causes_a_warning_with_both_places():
    messages = warnings_of(
        document(entity(client_id=DEFAULT), 10), document(entity(user=DEFAULT), 20)
    )
    assert messages == [
        (
            "a.yaml:13",
            "producer_byte_rate never applies: user=<default> has precedence for every such client (declared at a.yaml:23)",
        )
    ]


def test_a_rule_shadowed_by_a_live_limit_causes_a_warning():
    live = QuotaState(
        limits={entity(user=DEFAULT, client_id=DEFAULT): limits_of({RATE: 1.0, SHARE: 1.0})}
    )
    ((_, message),) = warnings_of(document(entity(client_id=DEFAULT)), live=live)
    assert message.endswith("(live, declared nowhere)")


def test_live_limits_that_shadow_each_other_cause_no_warning_of_a_document():
    live = QuotaState(
        limits={
            entity(user=DEFAULT): limits_of({RATE: 1.0}),
            entity(client_id=DEFAULT): limits_of({RATE: 1.0}),
        }
    )
    assert warnings_of(document(entity(user="alice")), live=live) == []


# ---- accepted ------------------------------------------------------------------------------------

WILDCARD = document(entity(user="team-*"), 3)


def accepted(
    *documents: Declaration, project: tuple[AcceptedWarning, ...] = ()
) -> list[tuple[str, str]]:
    return [
        (str(warning.kind), warning.accepted)
        for warning in warnings(merge(documents), settings=WarningSettings(accepted=project))
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


@pytest.mark.parametrize(
    ("rate", "seconds"), [(174_762.0, "6"), (74_000.0, "14"), (1.0, "1,048,576")]
)
def test_a_consumer_limit_below_the_rate_of_one_default_fetch_causes_a_warning(
    rate: float, seconds: str
) -> None:
    (warning,) = warnings(merge([document(entity(user="a"), consumer_byte_rate=rate)]))
    assert (warning.kind, warning.key) == (WarningKind.STARVED_FETCH, Key.CONSUMER_BYTE_RATE)
    assert f"holds {seconds} s of this limit" in warning.message


def test_the_fetch_size_that_the_project_states_decides_and_not_the_default() -> None:
    small = FetchSize(entities=(EntityPattern(user=NamePattern(prefix="small-")),), size=65_536)
    settings = WarningSettings(fetch_sizes=(small, FetchSize(entities=(), size=10_485_760)))
    fine = document(entity(user="small-1"), consumer_byte_rate=74_000.0)
    starved = document(entity(user="large"), 2, consumer_byte_rate=1_000_000.0)
    (warning,) = warnings(merge([fine, starved]), settings=settings)
    assert (warning.claim, warning.kind) == (starved, WarningKind.STARVED_FETCH)
    assert "(10,485,760, as spec.simulate states) holds 10 s of this limit" in warning.message


def test_producer_limits_and_larger_consumer_limits_cause_no_warning() -> None:
    fine = document(entity(user="a"), consumer_byte_rate=174_763.0, producer_byte_rate=1.0)
    assert warnings_of(fine) == []


def test_the_names_of_a_document_that_match_no_client_are_sentences_unless_it_accepts_them() -> (
    None
):
    (sentence,) = unmatched_names(WILDCARD)
    assert "*" in sentence
    assert unmatched_names(replace(WILDCARD, accepted=(("wildcard", "INC-7"),))) == ()
    assert unmatched_names(None) == ()
