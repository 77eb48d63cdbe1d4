"""Budgets and their use before and after a plan, as a table for every output, with a bar for each."""

from typing import Final

from reconciler.quota.entity import entity_text
from reconciler.quota.planner.budgets import BudgetMeasure, BudgetUse, Share
from reconciler.quota.results.report import Preview
from reconciler.render.sections import CellText, Section, TableForm, name, number, state, text
from reconciler.render.units import named_clients, quantity

BAR_WIDTH: Final = 20
"""Characters of a bar, which is full at what a budget allows."""

MOST_TIMES: Final = 100
"""Beyond so many times what is allowed, no percentage is shown."""


def bar(share: float) -> str:
    """Return a bar of a share of what is allowed; beyond that it is full and ends with an arrow."""
    filled = round(BAR_WIDTH * min(1.0, share))
    return "█" * filled + "░" * (BAR_WIDTH - filled) + ("▶" if share > 1 else "")


def _state(use: BudgetUse) -> str:
    if not use.is_exceeded:
        return "fits"
    return "refused" if use.is_refused else "exceeded"


def _name(use: BudgetUse) -> CellText:
    return CellText(use.budget.name, (f"{use.budget.key} of {use.budget.scope}",))


def _use(use: BudgetUse) -> CellText:
    share = use.after / use.budget.allowed
    word = "promised" if use.basis is BudgetMeasure.PROMISED else "observed"
    below = [use.note] if use.note else []
    if use.unlimited:
        below.append(f"{named_clients(use.unlimited)} and no such limit: not counted")
    percent = f"{100 * share:.0f} %" if share <= MOST_TIMES else f"over {MOST_TIMES} times"
    return CellText(f"{bar(share)} {percent} {word}", tuple(below))


def share_text(use: BudgetUse, share: Share) -> str:
    """Return what a limit contributes: ``user=a 10 MB/s``, or of a default limit ``user=<default> 3 x 10 MB/s``."""
    times = f"{share.clients:,} x " if share.clients > 1 else ""
    used = dict(use.spare).get(share.entity)
    spare = "" if used is None else f", of which {quantity(use.budget.key, used)} used"
    return f"{entity_text(share.entity)} {times}{quantity(use.budget.key, share.limit)}{spare}"


def _largest(use: BudgetUse) -> CellText:
    lines = tuple(share_text(use, share) for share in use.largest) or ("no limit counts",)
    return CellText(lines[0], lines[1:])


BUDGETS: Final[TableForm[BudgetUse]] = TableForm(
    "budgets",
    "Budgets",
    "For each broker, because Kafka applies limits per broker: all limits that clients can use at the same time, together.",
    (
        name("Budget", _name),
        number("Allowed", lambda use: quantity(use.budget.key, use.budget.allowed)),
        number("Now", lambda use: quantity(use.budget.key, use.before)),
        number("Then", lambda use: quantity(use.budget.key, use.after)),
        state("Verdict", _state),
        text("Use", _use),
        text("Largest", _largest),
    ),
)


def budget_section(preview: Preview) -> Section:
    """Return the table of budgets; without rows if none is configured."""
    return BUDGETS.of(preview.budgets)


def budget_lines(preview: Preview) -> list[str]:
    """Return the table of budgets for a terminal: three lines for each."""
    lines: list[str] = []
    for use in preview.budgets:
        key, budget, of_use = use.budget.key, use.budget, _use(use)
        values = f"{quantity(key, use.before)} -> {quantity(key, use.after)} of {quantity(key, budget.allowed)} per broker"
        largest = ", ".join(share_text(use, share) for share in use.largest)
        lines += [
            f"  {budget.name}, {key} of {budget.scope}: {_state(use)}; {values}",
            f"    {'; '.join((of_use.text, *of_use.below))}",
            f"    largest: {largest or 'no limit counts'}",
        ]
    return lines
