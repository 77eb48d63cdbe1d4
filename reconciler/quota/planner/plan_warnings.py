"""What a plan may do and a reviewer should see: it limits this tool itself, or a change looks like bits for bytes."""

from collections.abc import Iterable

from reconciler.quota.keys import RULES
from reconciler.quota.planner.plan import QuotaChange, apply_to
from reconciler.quota.policy import Cause
from reconciler.quota.precedence import Principal, resolve
from reconciler.quota.state import QuotaState


def own_limits(
    live: QuotaState, changes: Iterable[QuotaChange], principal: Principal
) -> tuple[str, ...]:
    """Warnings where a plan changes a limit of the very principal that applies it."""
    before_limits = resolve(live, principal)
    after_limits = resolve(apply_to(live, changes), principal)
    return tuple(
        f"{effective.key} limits our own principal {principal.user}: this tool may be throttled"
        for effective in after_limits.effective
        if effective.value is not None and effective.value != before_limits.limit(effective.key)
    )


def bit_slips(changes: Iterable[QuotaChange]) -> tuple[QuotaChange, ...]:
    """Declared byte rates that become exactly eight times larger or smaller, as bits in place of bytes do.

    Too common among intended changes to be refused.
    """
    return tuple(
        change
        for change in changes
        if RULES[change.key].is_bytes
        and change.cause not in {Cause.OVERRIDE, Cause.OVERRIDE_EXPIRED}
        and change.before
        and change.after
        and change.after / change.before in {8.0, 0.125}
    )
