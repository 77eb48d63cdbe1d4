"""The report on one client: its reasons and figures, and that no format of it has a name of another client."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.codecs.use_report import report_document
from reconciler.evidence.output.recommended_documents import DeclaredDocuments, limit_patch
from reconciler.quota.entity import ABSENT, DEFAULT, Entity, is_legal
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, limits_of
from reconciler.render.use.report_text import report_markdown, report_text
from reconciler.usage.impact.result_rows import EvidenceNote
from reconciler.usage.kernel.series import series_of
from reconciler.usage.recommendation.limit_sizes import SILVER
from reconciler.usage.reports.client import ClientReport
from reconciler.usage.reports.client_throttling import (
    ClientEvidence,
    ClientNames,
    client_report,
    is_own,
    least_limit,
)
from reconciler.usage.samples import Cadence, QuotaType
from reconciler.usage.tags import Bucket, bucket_of
from tests.render.use_reports import page

ALICE = ClientNames(user="alice")
STEP = 10_000
FROM, TO = 0, 100 * STEP


def series(rates: list[int], delays: dict[int, int]):
    return series_of(
        {
            "ts_ms": [STEP * (at + 1) for at in range(len(rates))],
            "dt_ms": [STEP] * len(rates),
            "rate_units": rates,
            "throttle_ms": [delays.get(at, 0) for at in range(len(rates))],
            "censored": [0] * len(rates),
        }
    )


def state(limits: dict[Entity, float]) -> QuotaState:
    return QuotaState(
        limits={
            subject: limits_of({Key.PRODUCER_BYTE_RATE: value}) for subject, value in limits.items()
        }
    )


def evidence(buckets: dict[Bucket, object], *limits: tuple[int, QuotaState]) -> ClientEvidence:
    return ClientEvidence(
        note=EvidenceNote(cluster_id="c1", from_ms=FROM, to_ms=TO, coverage_ppm=900_000),
        cadence=Cadence(step_ms=STEP, max_gap_ms=5 * STEP),
        series={QuotaType.PRODUCE: {bucket: {"1": samples} for bucket, samples in buckets.items()}},
        limits=limits,
    )


def report(of: ClientEvidence, client: ClientNames = ALICE, **options) -> ClientReport:
    return client_report(client, of, lambda _: SILVER, **options)


USER, USERS = Entity(("alice", ABSENT, ABSENT)), Entity((DEFAULT, ABSENT, ABSENT))
RATES = [500] * 20
THROTTLED = evidence(
    {bucket_of("alice"): series(RATES, {3: 2_400, 12: 600})},
    (0, state({USERS: 1_000})),
    (80_000, state({USER: 2_000, USERS: 1_000})),
)


def test_each_time_has_the_limit_in_force_then_and_its_level() -> None:
    first, second = report(THROTTLED).throttled
    assert (first.begin_ms, first.end_ms, first.delay_ms) == (30_000, 40_000, 2_400)
    assert (first.limit_units, first.level, first.source_entity) == (1_000, 6, '[["user",null]]')
    assert (second.limit_units, second.level, second.source_entity) == (
        2_000,
        3,
        '[["user","alice"]]',
    )
    assert (first.least_units, second.least_units) == (1_200, 2_100)


def test_a_limit_that_was_raised_while_the_delay_was_recorded_is_not_its_cause() -> None:
    samples = {bucket_of("alice"): series(RATES, {3: 2_400, 4: 2_400})}
    low, high = state({USER: 1_000}), state({USER: 50_000})
    for snapshots in (((0, low), (45_000, high)), ((0, high), (45_000, low))):
        (row,) = report(evidence(samples, *snapshots)).throttled
        assert (row.end_ms, row.limit_units, row.least_units) == (50_000, 1_000, 1_200)
    (row,) = report(evidence(samples, (0, low), (50_001, high))).throttled
    assert row.limit_units == 1_000
    (row,) = report(evidence(samples, (0, low), (30_000, high))).throttled
    assert row.limit_units == 50_000


@pytest.mark.parametrize(
    ("present", "target"), [({USER: 1_379}, 1_380), ({USER: 1_380}, None), ({}, None)]
)
def test_no_limit_is_proposed_that_is_not_above_the_present_one(present, target) -> None:
    samples = {bucket_of("alice"): series(RATES, {3: 2_400})}
    snapshots = (0, state({USER: 1_000})), (80_000, state(present))
    (row,) = report(evidence(samples, *snapshots)).limits
    assert (row.is_known, row.least_units, row.target_units) == (True, 1_200, target)
    (curve,) = report(evidence(samples, *snapshots)).curves
    assert curve.after_units == (target or row.limit_units)


def test_the_nearest_time_comes_first_and_the_one_in_question_is_marked() -> None:
    at_time = report(replace(THROTTLED, at_ms=125_000))
    assert [row.begin_ms for row in at_time.throttled] == [120_000, 30_000]
    assert [row.begin_ms for row in at_time.throttled_at] == [120_000]
    assert report(replace(THROTTLED, at_ms=60_000)).throttled_at == ()
    cut = report(THROTTLED, max_rows=1)
    assert (len(cut.throttled), cut.left_out) == (1, 1)


def test_the_proposed_limit_is_above_the_limit_that_throttled() -> None:
    (row,) = report(THROTTLED).limits
    assert (row.limit_units, row.level, row.throttled_ms, row.covered_ms) == (
        2_000,
        3,
        20_000,
        200_000,
    )
    assert (row.least_units, row.target_units) == (2_100, 2_420)
    calm = evidence({bucket_of("alice"): series(RATES, {})}, (0, state({USER: 2_000})))
    (row,) = report(calm).limits
    assert (row.least_units, row.target_units, row.throttled_ms) == (None, None, 0)


def test_throttling_without_a_known_limit_still_has_its_time() -> None:
    unknown = replace(THROTTLED, limits=())
    (first, _) = report(unknown).throttled
    assert (first.limit_units, first.level, first.source_entity, first.least_units) == (
        None,
        None,
        "",
        None,
    )
    (row,) = report(unknown).limits
    assert (row.is_known, row.limit_units, row.target_units) == (False, None, 573)


def test_a_limit_that_was_set_after_the_last_snapshot_is_not_known_and_not_none() -> None:
    before = replace(THROTTLED, limits=((0, state({})),))
    (first, _) = report(before).throttled
    assert (first.limit_units, first.snapshot_ms) == (None, 0)
    (row,) = report(before).limits
    assert (row.is_known, row.limit_units, row.target_units) == (False, None, 573)
    between = replace(THROTTLED, limits=((0, state({})), (TO, state({USER: 2_000}))))
    (first, _) = report(between).throttled
    assert (first.limit_units, first.snapshot_ms) == (2_000, 0)
    removed = replace(THROTTLED, limits=((0, state({})), (TO, state({}))))
    (row,) = report(removed).limits
    assert (row.is_known, row.limit_units, row.target_units) == (True, None, None)


@given(st.integers(1, 10**12), st.floats(1.0001, 50), st.floats(10, 12))
def test_a_smaller_limit_than_the_least_would_have_delayed_the_same_rate(
    limit, times, window_s
) -> None:
    """The broker's formula: a rate O above T is delayed by (O - T) / T of its window."""
    rate = limit * times
    delay_ms = int((rate - limit) / limit * window_s * 1000)
    for kind in (QuotaType.PRODUCE, QuotaType.FETCH):
        least = least_limit(kind, limit, delay_ms)
        assert least is not None
        assert limit < least <= max(rate * (1 + 1e-9), limit + 1)


@pytest.mark.parametrize("kind", [QuotaType.REQUEST, QuotaType.CONTROLLER_MUTATION, QuotaType.IP])
def test_of_other_types_a_delay_says_only_that_the_limit_was_too_small(kind) -> None:
    assert least_limit(kind, 1_000, 5_000) == 1_001
    assert least_limit(kind, None, 5_000) is None


OWN, OTHER = "mine", "stranger"
own_names = st.sampled_from(["", f"{OWN}-1", f'{OWN}"<b>'])
other_names = st.sampled_from([f"{OTHER}-1", f'{OTHER}"=<i>|', f"{OWN} and {OTHER}", f"x{OTHER}"])
any_names = st.one_of(st.just(""), own_names, other_names)
slots = st.one_of(st.just(ABSENT), st.just(DEFAULT), own_names.filter(bool), other_names)
entities = st.tuples(slots, slots, st.just(ABSENT)).map(Entity).filter(is_legal)
series_of_clients = st.dictionaries(
    st.builds(bucket_of, any_names, any_names, st.sampled_from(["", "", "10.0.0.1", "10.9.9.9"])),
    st.builds(
        series,
        st.lists(st.integers(0, 10**6), min_size=20, max_size=20),
        st.dictionaries(st.integers(0, 19), st.integers(1, 5_000), max_size=4),
    ),
    max_size=8,
)
snapshots = st.dictionaries(entities, st.integers(1, 10**6).map(float), max_size=8).map(state)


@given(
    st.builds(
        ClientNames, user=own_names, client_id=own_names, ip=st.sampled_from([None, "10.0.0.1"])
    ),
    series_of_clients,
    st.lists(snapshots, max_size=3),
    st.one_of(st.none(), st.integers(FROM, TO)),
)
def test_no_format_has_a_name_of_another_client(client, recorded, states, at_ms) -> None:
    limits = [(60_000 * at, limits) for at, limits in enumerate(states)]
    client_page = report(replace(evidence(recorded, *limits), at_ms=at_ms), client)
    assert {row.bucket for row in client_page.limits} == {
        bucket for bucket in recorded if is_own(client, bucket)
    }
    declared = DeclaredDocuments(cluster="prod")
    patches = filter(None, (limit_patch(row, declared) for row in client_page.limits))
    client_page = replace(client_page, patches=tuple(patches))
    texts = [
        report_text(client_page),
        report_markdown(client_page),
        page(client_page),
        json.dumps(report_document(client_page)),
    ]
    for text in texts:
        assert OTHER not in text
        assert "10.9.9.9" not in text
    assert is_own(client, bucket_of(client.user or "", client.client_id or "")) or not (
        client.user or client.client_id
    )
