"""What the recording says of consumers that are held back: their rates are no demand, however far from the limit they are."""

from reconciler.usage.samples import Censored, QuotaType
from reconciler.usage.series import thinned
from tests.recording import fixture, truth
from tests.recording.compare import DELAY, RATE
from tests.recording.fixture import Case, Kept
from tests.usage.reference import Sample, censored


def limited(kept: Kept, case: Case) -> list[Sample]:
    """The samples of the half with limits."""
    rates, delays = truth.points_of(kept.matrix, RATE), truth.points_of(kept.matrix, DELAY)
    ((_, up),) = truth.points_of(kept.matrix, "up").items()
    who = (case.kind, case.user, case.client_id)
    samples = truth.samples(
        QuotaType(case.kind),
        rates[who],
        delays[who],
        kept=thinned([at for at, _ in up]),
        scrape_ms=kept.scrape_ms,
    )
    begin, end = kept.limited
    return [sample for sample in samples if begin <= sample.ts_ms < end]


def told(case: Case, sample: Sample) -> Censored:
    return censored(
        QuotaType(case.kind),
        throttle_ms=sample.throttle_ms,
        rate_units=sample.rate_units,
        limit=case.limit,
        request_throttled=False,
    )


def test_no_throttled_reading_of_a_consumer_with_wide_fetches_is_taken_for_demand():
    kept = fixture.read(1)
    (ramp,) = [case for case in kept.cases if (case.kind, case.shape) == ("fetch", "ramp")]
    throttled = [sample for sample in limited(kept, ramp) if sample.throttle_ms]
    far = [one for one in throttled if 10 * one.rate_units < 9 * ramp.limit]
    assert len(far) * 2 > len(throttled) > 10  # its fetches of 1 MiB halve what it gets
    assert {told(ramp, one) for one in far} == {Censored.UNKNOWN}
    assert Censored.NO not in {told(ramp, one) for one in throttled}


def test_a_producer_comes_near_its_limit_while_it_waits():
    kept = fixture.read(1)
    (steady,) = [case for case in kept.cases if (case.kind, case.shape) == ("produce", "steady")]
    throttled = [sample for sample in limited(kept, steady) if sample.throttle_ms]
    assert sum(told(steady, one) is Censored.YES for one in throttled) * 2 > len(throttled)
