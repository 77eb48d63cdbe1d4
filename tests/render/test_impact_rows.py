"""Clients with another limit, and rules that never apply: apart from the changes."""

from msgspec.structs import replace

from reconciler.quota.entity import entity
from reconciler.quota.planner.impact import BucketSharing, assess
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.precedence import Principal
from reconciler.quota.results.report import Preview
from reconciler.quota.state import QuotaState, limits_of
from reconciler.render.impact_rows import (
    SHARING,
    impact_sections,
)
from reconciler.render.terminal import SHOWN_AFFECTED, plan_text
from tests.render.previews import ALICE, RATE, SHARE, empty


def previewed(
    live: QuotaState, *changes: QuotaChange, principals: tuple[Principal, ...] = ()
) -> Preview:
    plan = Plan(cluster_id="c", changes=changes)
    return replace(sample_of(plan), impact=assess(plan, live, known_principals=principals))


def sample_of(plan: Plan) -> Preview:
    return replace(empty(), plan=plan)


def test_a_split_bucket_is_reported():
    live = QuotaState(limits={ALICE: limits_of({RATE: 5000.0})})
    both = entity(user="alice", client_id="app")
    change = QuotaChange(entity=both, key=RATE, before=None, after=5000.0, cause=Cause.CREATE)
    preview = previewed(live, change, principals=(Principal(user="alice", client_id="app"),))
    (row,) = impact_sections(preview)[0].rows
    assert (row.mark, row.meaning, row.reason) == ("=", "", SHARING[BucketSharing.SPLIT])
    assert "shared with fewer clients" in plan_text(preview)


def test_long_lists_of_clients_are_shortened_with_a_count():
    live = QuotaState(limits={ALICE: limits_of({RATE: 5000.0})})
    principals = tuple(Principal(user="alice", client_id=f"c{number:03d}") for number in range(150))
    change = QuotaChange(entity=ALICE, key=RATE, before=5000.0, after=9000.0, cause=Cause.SPEC)
    preview = previewed(live, change, principals=principals)
    text = plan_text(preview)
    assert text.count("client-id=c") == SHOWN_AFFECTED
    assert f"and {150 - SHOWN_AFFECTED} more" in text
    assert plan_text(preview, verbose=True).count("client-id=c") == 150
    assert len(impact_sections(preview)[0].rows) == 150


def test_the_last_limit_of_a_key_ends_its_metrics_and_this_is_reported():
    live = QuotaState(limits={ALICE: limits_of({SHARE: 50.0})})
    change = QuotaChange(entity=ALICE, key=SHARE, before=50.0, after=None, cause=Cause.PRUNE)
    text = plan_text(previewed(live, change))
    assert (
        "The last request_percentage of the cluster is removed: brokers drop its per-client metrics"
        in text
    )
