"""Partition mutations: limited by the active controller alone, so its readings are one series of the cluster over failovers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from reconciler.usage.samples import LEAST_STEP_MS


class MutationScrape(NamedTuple):
    """A kept scrape of a node that recorded mutations at some time of the day.

    Attributes:
        ts_ms: When.
        node: Its id.
        row: Its row.
        total: Mutations per second of all buckets.
    """

    ts_ms: int
    node: str
    row: int
    total: float


def reign(sights: Iterable[MutationScrape], step_ms: int) -> tuple[int, ...]:
    """The rows at which the node that was scraped was the active controller, ascending in time.

    No metric says who is active, but only the active controller counts mutations. So a node takes over where it shows
    some while the one before shows none, or was not seen for two steps. Until a node shows some it is the first
    that will.

    Args:
        sights: Of all such nodes.
        step_ms: Usual distance of two scrapes.
    """
    order = sorted(sights)
    if not order:
        return ()
    active = next((scrape.node for scrape in order if scrape.total > 0), order[0].node)
    last_by_node: dict[str, MutationScrape] = {}
    ruled: list[MutationScrape] = []
    for scrape in order:
        last_by_node[scrape.node] = scrape
        if (
            scrape.node != active
            and scrape.total > 0
            and _is_over(last_by_node.get(active), scrape, step_ms)
        ):
            active = scrape.node
            if ruled and ruled[-1].total <= 0 and scrape.ts_ms - ruled[-1].ts_ms < LEAST_STEP_MS:
                _ = (
                    ruled.pop()
                )  # the old one showed nothing any more: what the new one shows counts
        if scrape.node == active and (not ruled or scrape.ts_ms - ruled[-1].ts_ms >= LEAST_STEP_MS):
            ruled.append(scrape)
    return tuple(scrape.row for scrape in ruled)


def _is_over(old: MutationScrape | None, new: MutationScrape, step_ms: int) -> bool:
    return old is None or old.total <= 0 or new.ts_ms - old.ts_ms > 2 * step_ms


def sights(
    totals: Mapping[int, float], nodes: Mapping[str, Sequence[int]], times: Sequence[int]
) -> list[MutationScrape]:
    """All kept scrapes of some nodes.

    Args:
        totals: Mutations per second by row; none = 0.
        nodes: The rows of each node.
        times: Milliseconds of all rows.
    """
    return [
        MutationScrape(ts_ms=times[row], node=node, row=row, total=totals.get(row, 0.0))
        for node, rows in nodes.items()
        for row in rows
    ]
