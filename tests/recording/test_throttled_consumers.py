"""Throttled consumers in the recording: their rates are not their demand, at any distance from the limit."""

from reconciler.usage.samples import Censored, QuotaType, thinned
from tests.recording import fixture, truth
from tests.recording.compare import DELAY, RATE
from tests.recording.fixture import Case, FixtureRun
from tests.usage.reference import Sample, censored


def limited(run: FixtureRun, case: Case) -> list[Sample]:
    """The samples of the half with limits."""
    rates, delays = truth.points_of(run.matrix, RATE), truth.points_of(run.matrix, DELAY)
    ((_, up),) = truth.points_of(run.matrix, "up").items()
    who = (case.kind, case.user, case.client_id)
    samples = truth.samples(
        QuotaType(case.kind),
        rates[who],
        delays[who],
        scrapes=thinned([at for at, _ in up]),
        scrape_ms=run.scrape_ms,
    )
    begin, end = run.limited
    return [sample for sample in samples if begin <= sample.ts_ms < end]


def censoring(case: Case, sample: Sample) -> Censored:
    return censored(
        QuotaType(case.kind),
        throttle_ms=sample.throttle_ms,
        rate_units=sample.rate_units,
        limit=case.limit,
        request_throttled=False,
    )


def test_no_throttled_sample_of_a_consumer_with_large_fetches_counts_as_demand():
    run = fixture.read(1)
    (ramp,) = [case for case in run.cases if (case.kind, case.shape) == ("fetch", "ramp")]
    throttled = [sample for sample in limited(run, ramp) if sample.throttle_ms]
    far = [sample for sample in throttled if 10 * sample.rate_units < 9 * ramp.limit]
    assert len(far) * 2 > len(throttled) > 10  # its fetches of 1 MiB halve its rate
    assert {censoring(ramp, sample) for sample in far} == {Censored.UNKNOWN}
    assert Censored.NO not in {censoring(ramp, sample) for sample in throttled}


def test_a_producer_approaches_its_limit_while_it_waits():
    run = fixture.read(1)
    (steady,) = [case for case in run.cases if (case.kind, case.shape) == ("produce", "steady")]
    throttled = [sample for sample in limited(run, steady) if sample.throttle_ms]
    assert sum(censoring(steady, sample) is Censored.YES for sample in throttled) * 2 > len(
        throttled
    )
