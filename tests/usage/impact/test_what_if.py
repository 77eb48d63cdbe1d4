"""The impact of a plan on recorded use: every change is reported, and only affected series are read."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.quota.entity import DEFAULT, canonical_text, entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, limits_of
from reconciler.usage.impact.bucket_mapping import (
    CUSTOM_CALLBACK,
    HISTORY_BREAKS,
    NOTHING_SEEN,
    Identifiability,
)
from reconciler.usage.impact.query import (
    FOREIGN_ENTITIES,
    INVALID_LIMIT,
    NO_LIMITED_CLIENT,
    NOT_MEASURED,
    impact_query,
)
from reconciler.usage.impact.recorded_limits import RecordedLimits
from reconciler.usage.impact.tier_policy import NOT_STATED
from reconciler.usage.impact.verdict import ImpactVerdict
from reconciler.usage.impact.what_if import NO_SAMPLES
from reconciler.usage.samples import KEY_OF, Censored, QuotaType
from reconciler.usage.tags import bucket_of
from reconciler.usage.throttle_models import FigureBound
from tests.usage.recorded import OldBucket, impact, judged
from tests.usage.reference import Sample
from tests.usage.whatif_cases import CADENCE, case

numbers = st.integers(0, 100_000)
PRODUCE = QuotaType.PRODUCE
RATE = Key.PRODUCER_BYTE_RATE
ALICE, BOB = entity(user="alice"), entity(user="bob")
ANY_USER = entity(user=DEFAULT)
APP = entity(client_id="app")


def state(limits) -> QuotaState:
    return QuotaState(
        limits={subject: limits_of({RATE: value}) for subject, value in limits.items()}
    )


def rates(*values, censored=Censored.NO):
    return [Sample(n * 30_000, 30_000, rate, 0, censored) for n, rate in enumerate(values)]


def ask(before, after, buckets, measured=frozenset(QuotaType), **more):
    by_type = {PRODUCE: {broker: list(each) for broker, each in buckets.items()}}
    return impact_query("c1", before, after, by_type, measured, **more)


def rows(question, series):
    by_type: dict = {}
    for (bucket, broker), samples in series.items():
        by_type.setdefault(bucket, {})[broker] = samples
    return judged(question, {PRODUCE: by_type}, CADENCE)


@given(numbers)
def test_every_changed_pair_has_a_request(number):
    fleet = case(number)
    question = fleet.question
    for subject in fleet.before.limits.keys() | fleet.after.limits.keys():
        for kind, key in KEY_OF.items():
            values = {repr(side.value(subject, key)) for side in (fleet.before, fleet.after)}
            if len(values) == 1:
                continue
            requests = [row for row in question.requests if row.quota_type is kind]
            assert any(speaks_of(row, subject) for row in requests), subject


def speaks_of(row, subject) -> bool:
    """Match by its source, by the names of its bucket, or by those of a part."""
    return row.source_entity == canonical_text(subject) or any(
        all(
            slot is DEFAULT or (slot or "") in {name, ""} or not slot
            for slot, name in zip(subject, (bucket.user, bucket.client_id, bucket.ip), strict=True)
        )
        for bucket in (row.bucket, *(part.bucket for part in row.parts))
    )


@given(numbers)
def test_rows_are_sorted_unique_by_key_and_independent_of_the_order_of_evidence(number):
    fleet = case(number)
    rows = judged(fleet.question, fleet.series, CADENCE)
    keys = [(row.quota_type, row.bucket, row.any_name, row.broker_id) for row in rows]
    assert keys == sorted(set(keys))
    turned = {
        kind: {broker: buckets[::-1] for broker, buckets in reversed(list(each.items()))}
        for kind, each in reversed(list(fleet.observed_buckets.items()))
    }
    again = impact_query(
        fleet.cluster_id, fleet.before, fleet.after, turned, fleet.measured, recorded=fleet.recorded
    )
    assert judged(again, fleet.series, CADENCE) == rows


@given(numbers)
def test_without_a_change_there_are_no_requests(number):
    fleet = case(number)
    question = impact_query(
        fleet.cluster_id, fleet.after, fleet.after, fleet.observed_buckets, fleet.measured
    )
    assert question.requests == question.notes == ()
    assert question.reads == {}


@given(numbers)
def test_a_row_of_one_bucket_equals_its_verdict(number):
    fleet = case(number)
    question = fleet.question
    for ask_, row in zip(question.requests, judged(question, fleet.series, CADENCE), strict=True):
        if not ask_.parts:
            assert row.verdict in {ImpactVerdict.NO_DATA, ImpactVerdict.NOT_IDENTIFIABLE}
            assert row.after_throttled_ms is None
            assert row.why
            continue
        parts = [
            OldBucket(
                samples=fleet.series[row.quota_type].get(part.bucket, {}).get(row.broker_id, []),
                limit=part.limit,
                clients=NOT_STATED.of(row.quota_type, part.bucket),
            )
            for part in ask_.parts
        ]
        bucket_impact = impact(
            row.quota_type,
            row.answer,
            parts,
            row.after_units,
            max_gap_ms=CADENCE.max_gap_ms,
            clients=NOT_STATED.of(row.quota_type, row.bucket),
        )
        assert (row.verdict, row.bound) == (bucket_impact.verdict, bucket_impact.bound)
        assert row.after_throttled_ms == (bucket_impact.after and bucket_impact.after.throttled_ms)
        assert (row.covered_ms, row.censored_ms) == (
            bucket_impact.covered_ms,
            bucket_impact.censored_ms,
        )


@given(numbers)
def test_only_recorded_series_are_read(number):
    fleet = case(number)
    for kind, buckets in fleet.question.reads.items():
        assert kind in fleet.measured
        assert set(buckets) <= {
            each
            for broker_buckets in fleet.observed_buckets[kind].values()
            for each in broker_buckets
        }


def test_only_the_bucket_that_changes_is_read():
    before = state({ALICE: 100.0, BOB: 100.0})
    question = ask(
        before,
        before.with_values([(ALICE, RATE, 50.0)]),
        {"1": [bucket_of("alice"), bucket_of("bob")]},
    )
    assert question.reads == {PRODUCE: (bucket_of("alice"),)}
    (row,) = rows(question, {(bucket_of("alice"), "1"): rates(80, 80, 0, 0, 0)})
    assert (row.verdict, row.bound) == (ImpactVerdict.WORSE, FigureBound.BETWEEN)
    assert 0 < (row.after_throttled_ms or 0) < (row.worst_throttled_ms or 0) <= 90_000
    assert 0 < (row.after_max_delay_ms or 0) < (row.worst_max_delay_ms or 0) <= 36_000
    assert (row.before_units, row.after_units, row.source_entity) == (100, 50, '[["user","alice"]]')


def test_a_tenant_without_recorded_use_has_one_row_without_a_broker():
    after = state({ALICE: 100.0, BOB: 5.0})
    (row,) = rows(ask(state({BOB: 5.0}), after, {"1": [bucket_of("bob")], "2": []}), {})
    assert (row.broker_id, row.verdict, row.why) == ("", ImpactVerdict.NO_DATA, NOTHING_SEEN)
    assert (row.bucket, row.after_units) == (bucket_of("alice"), 100)


def test_a_broker_without_recorded_use_of_a_tenant_has_no_row():
    after = state({ALICE: 100.0})
    question = ask(state({ALICE: 9.0}), after, {"1": [bucket_of("alice")], "2": []})
    assert [request.broker_id for request in question.requests] == ["1"]


def test_a_type_without_any_quota_was_not_measured():
    question = ask(QuotaState(), state({ALICE: 100.0}), {}, frozenset({QuotaType.FETCH}))
    (row,) = rows(question, {})
    assert (row.verdict, row.why) == (ImpactVerdict.NO_DATA, NOT_MEASURED)


def test_the_end_of_telemetry_with_the_last_quota_of_a_type_is_reported():
    (note,) = ask(state({ALICE: 1.0}), QuotaState(), {}).notes
    assert "no producer_byte_rate is left" in note


def test_a_limit_replaced_by_an_equal_one_is_reported_as_the_same():
    before = state({ALICE: 100.0, ANY_USER: 100.0})
    question = ask(
        before,
        before.with_values([(ALICE, RATE, None)]),
        {"1": [bucket_of("alice"), bucket_of("bob")]},
    )
    (row,) = rows(question, {(bucket_of("alice"), "1"): rates(80, 180, 0)})
    assert (row.bucket, row.verdict, row.answer) == (
        bucket_of("alice"),
        ImpactVerdict.SAME,
        Identifiability.EXACT,
    )


def test_a_limit_that_applies_to_no_client_is_reported():
    before = state({ALICE: 100.0, ANY_USER: 50.0, APP: 7.0})
    question = ask(before, before.with_values([(APP, RATE, 8.0)]), {"1": [bucket_of("alice")]})
    (row,) = rows(question, {})
    assert (row.bucket, row.verdict, row.why) == (
        bucket_of("", "app"),
        ImpactVerdict.NO_DATA,
        NO_LIMITED_CLIENT,
    )


def test_a_limit_of_nan_cannot_be_simulated():
    for odd in (float("nan"), 0.0, -1.0):
        buckets = {"1": [bucket_of("alice")]}
        for before, after in ((odd, 5.0), (5.0, odd)):
            question = ask(state({ALICE: before}), state({ALICE: after}), buckets)
            (row,) = rows(question, {})
            assert (row.verdict, row.why) == (ImpactVerdict.NOT_IDENTIFIABLE, INVALID_LIMIT)


def test_with_a_callback_or_foreign_entities_nothing_is_identifiable():
    before, after = state({ALICE: 100.0}), state({ALICE: 50.0})
    buckets = {"1": [bucket_of("alice")]}
    (row,) = rows(ask(before, after, buckets, callback="com.example.Ours"), {})
    assert (row.verdict, row.why) == (ImpactVerdict.NOT_IDENTIFIABLE, CUSTOM_CALLBACK)
    odd = ((("client-id-prefix", "a"),), (("producer_byte_rate", 1.0),))
    foreign = QuotaState(limits=before.limits, foreign_entities=(odd,))
    (row,) = rows(ask(foreign, after, buckets), {})
    assert (row.verdict, row.why) == (ImpactVerdict.NOT_IDENTIFIABLE, FOREIGN_ENTITIES)


def test_only_buckets_that_may_hold_a_client_of_a_foreign_entity_have_no_figure():
    before, after = (state({ANY_USER: limit}) for limit in (100.0, 50.0))
    odd = ((("team", "a"), ("user", "alice")), (("producer_byte_rate", 1.0),))
    foreign = QuotaState(limits=before.limits, foreign_entities=(odd,))
    query = ask(foreign, after, {"1": [bucket_of("alice"), bucket_of("bob")]})
    assert [(row.bucket.user, row.answer, row.reason) for row in query.requests] == [
        ("alice", Identifiability.NOT_IDENTIFIABLE, FOREIGN_ENTITIES),
        ("bob", Identifiability.EXACT, ""),
    ]


def test_a_foreign_entity_with_another_key_has_no_effect():
    odd = ((("client-id-prefix", "a"),), (("consumer_byte_rate", 1.0),))
    before = QuotaState(limits=state({ALICE: 100.0}).limits, foreign_entities=(odd,))
    (request,) = ask(before, state({ALICE: 50.0}), {"1": [bucket_of("alice")]}).requests
    assert request.answer is Identifiability.EXACT


def test_series_recorded_with_a_different_counting_of_clients_break_the_history():
    recorded = state(
        {APP: 100.0, ANY_USER: 100.0}
    )  # then ("", "app") held no client: 6 goes before 7
    before, after = state({APP: 100.0}), state({APP: 50.0})
    buckets = {"1": [bucket_of("", "app")]}
    assert ask(before, after, buckets).requests[0].answer is Identifiability.EXACT
    (row,) = rows(ask(before, after, buckets, recorded=RecordedLimits(states=(recorded,))), {})
    assert (row.verdict, row.why) == (ImpactVerdict.NOT_IDENTIFIABLE, HISTORY_BREAKS)


def test_series_recorded_under_another_value_are_read_and_named():
    buckets = {"1": [bucket_of("alice")]}
    before, after = state({ALICE: 100.0}), state({ALICE: 50.0})
    recorded = RecordedLimits(states=(state({ALICE: 200.0}),))
    question = ask(before, after, buckets, recorded=recorded)
    assert question.requests[0].answer is Identifiability.EXACT
    assert question.notes == (
        "producer_byte_rate: 1 of 1 buckets were recorded under another limit than today's",
    )


def test_for_several_buckets_that_are_joined_the_lowest_current_limit_is_reported():
    before = state(
        {entity(user="alice", client_id="a"): 10.0, entity(user="alice", client_id="b"): 20.0}
    )
    buckets = {"1": [bucket_of("alice", "a"), bucket_of("alice", "b")]}
    question = ask(before, state({ALICE: 50.0}), buckets)
    (row,) = [request for request in question.requests if request.bucket == bucket_of("alice")]
    assert len(row.parts) == 2
    assert (row.before_units, row.after_units) == (10, 50)


def test_an_empty_series_is_reported_as_no_samples():
    question = ask(state({ALICE: 1.0}), state({ALICE: 2.0}), {"1": [bucket_of("alice")]})
    (row,) = rows(question, {})
    assert (row.verdict, row.answer, row.why) == (
        ImpactVerdict.NO_DATA,
        Identifiability.EXACT,
        NO_SAMPLES,
    )
    assert row.before_throttled_ms is row.observed_throttled_ms is None


def test_changed_tags_are_counted_even_without_a_limit():
    before, after = state({ALICE: 1.0}), state({ALICE: 1.0, APP: 2.0})
    question = ask(before, after, {"1": [bucket_of("bob")]})
    assert question.flipped == 1


def test_the_generated_cases_cover_every_answer():
    missing = {*Identifiability, *ImpactVerdict}
    for number in range(300):
        missing -= {part for row in judged_case(number) for part in (row.answer, row.verdict)}
        if not missing:
            return
    assert not missing


def judged_case(number):
    fleet = case(number)
    return judged(fleet.question, fleet.series, CADENCE)


def test_the_last_limit_of_connections_is_reported_like_that_of_any_other_key():
    subject = entity(ip="10.0.0.1")
    before = QuotaState().with_values([(subject, Key.CONNECTION_CREATION_RATE, 5.0)])
    question = impact_query("c1", before, QuotaState(), {}, frozenset(QuotaType))
    assert question.notes == (
        "no connection_creation_rate is left after this change: brokers stop recording ip",
    )
    assert not impact_query("c1", QuotaState(), before, {}, frozenset(QuotaType)).notes
