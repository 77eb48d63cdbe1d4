"""The columns of the assembly equal the core's own functions, value by value."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.evidence.store.snapshot_import import LimitSnapshot
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, limits_of
from reconciler.usage.samples import Censored, QuotaType
from reconciler.usage.tags import Bucket, GroupKind
from tests.evidence.ingest import slow_days
from tests.evidence.ingest.point_rows import NAN, PACE, START, broker, day, gauge
from tests.usage.reference import Sample

GRID = st.lists(
    st.sampled_from([0, 4, 9, 10, 30, 31, 60, 90, 120, 290, 330, 900]),
    min_size=1,
    max_size=9,
    unique=True,
)
RATES = st.sampled_from([0.0, 0.5, 1.5, 89.5, 90.0, 100.0, 1e14, -3.0, NAN])
DELAYS = st.sampled_from([0.0, NAN, 1.0, 700.0])
NAMES = [("alice", ""), ("", "app"), ("alice", "app"), ("", "")]


@st.composite
def days(draw):
    rows = []
    for number in range(draw(st.integers(1, 2))):
        at = sorted(START + 1000 * seconds for seconds in draw(GRID))
        rows += broker(number, at)
        for kind in draw(st.lists(st.sampled_from(["produce", "fetch"]), max_size=2, unique=True)):
            for user, client_id in draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True)):
                more = {
                    "kind": kind,
                    "user": user,
                    "client_id": client_id,
                    "instance": f"b{number}:7071",
                }
                rate_times = draw(st.lists(st.sampled_from(at), unique=True))
                rows += gauge("rate", rate_times, [draw(RATES) for _ in rate_times], **more)
                delay_times = draw(st.lists(st.sampled_from(at), unique=True))
                rows += gauge(
                    "throttle_ms", delay_times, [draw(DELAYS) for _ in delay_times], **more
                )
    return rows


ENTITIES = st.sampled_from(
    [
        entity(user="alice"),
        entity(user=DEFAULT),
        entity(client_id="app"),
        entity(user="alice", client_id=DEFAULT),
    ]
)
STATES = st.dictionaries(
    ENTITIES,
    st.dictionaries(
        st.sampled_from([Key.PRODUCER_BYTE_RATE, Key.CONSUMER_BYTE_RATE]),
        st.sampled_from([100.0, 1.0, 1e15, -1.0]),
        min_size=1,
    ),
    max_size=3,
)


@st.composite
def looks(draw):
    moments = draw(st.lists(st.sampled_from([-60, 0, 15, 30, 95, 300]), max_size=3, unique=True))
    return [
        LimitSnapshot(
            observed_ms=START + 1000 * at,
            snapshot_id=str(at),
            state=QuotaState(
                limits={owner: limits_of(values) for owner, values in draw(STATES).items()}
            ),
        )
        for at in moments
    ]


def by_line(table):
    samples = {}
    for row in table.to_pylist():
        bucket = Bucket(
            kind=GroupKind(row["group_kind"]),
            user=row["user"],
            client_id=row["client_id"],
            ip=row["ip"],
        )
        sample = Sample(
            row["ts_ms"],
            row["dt_ms"],
            row["rate_units"],
            row["throttle_ms"],
            Censored(row["censored"]),
        )
        line = (row["broker_id"], QuotaType(row["quota_type"]).value, bucket)
        samples.setdefault(line, []).append(sample)
    return {line: tuple(several) for line, several in samples.items()}


@given(rows=days(), snapshots=looks())
def test_every_sample_equals_the_sample_of_the_core(rows, snapshots):
    assert by_line(day(rows, looks=snapshots).usage) == slow_days.samples(rows, snapshots, PACE)


@given(rows=days(), snapshots=looks(), order=st.randoms(use_true_random=False))
def test_samples_do_not_depend_on_the_order_of_points_and_snapshots(rows, snapshots, order):
    done = day(rows, looks=snapshots)
    order.shuffle(rows)
    again = day(rows, looks=list(reversed(snapshots)))
    assert done.usage.equals(again.usage) or done.usage.to_pylist() == again.usage.to_pylist()
    assert (done.up, done.brokers, done.counts, done.carry) == (
        again.up,
        again.brokers,
        again.counts,
        again.carry,
    )
