"""Points of a day at the moments that count: which scrape of which broker each belongs to, and which are not used, by name."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.telemetry import codes, scrapes, surmised
from reconciler.telemetry.brokers import Identities
from reconciler.telemetry.fates import Fate, Tally
from reconciler.telemetry.rivals import Rivals
from reconciler.telemetry.scrapes import HOUR_MS, Place, Scrapes
from reconciler.telemetry.targets import Origin, Target
from reconciler.usage.tables import Measure

SHIFT: Final = 2**42
"""Above every time in milliseconds (the year 2109)."""

NAMES: Final = ("measure", "quota_type", "user", "client_id", "ip")
"""What a series of a broker is known by, besides the broker."""

COLUMNS: Final = (*NAMES, "instance", "replica", "ts_ms", "value")
"""The columns of ``point`` that assembling reads."""

_FATES: Final = tuple(Fate)
_OTHERS: Final = (Fate.OTHER_REPLICA, Fate.OTHER_INSTANCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Points at kept moments, one per series and moment.

    Attributes:
        scrapes: The moments.
        rows: For each point the row of its moment.
        names: The columns of :data:`NAMES`, one value per point.
        values: As recorded.
    """

    scrapes: Scrapes
    rows: pa.Int64Array
    names: tuple[pa.Array, ...]
    values: pa.DoubleArray

    def taken(self, mask: pa.Array) -> "Placed":
        """Some of the points."""
        return Placed(
            scrapes=self.scrapes,
            rows=self.rows.filter(mask),
            names=tuple(one.filter(mask) for one in self.names),
            values=self.values.filter(mask),
        )


def one_of(column: pa.DictionaryArray, texts: Sequence[str]) -> pa.Array:
    """Which rows of a column of texts have one of these."""
    known = column.dictionary.to_pylist()
    wanted = [at for at, text in enumerate(known) if text in texts]
    return pc.is_in(column.indices, value_set=pa.array(wanted, column.indices.type))


def placed(points: pa.Table, step_ms: int, tally: Tally) -> Placed:
    """Points of one cluster and day at the moments that count.

    Args:
        points: Columns of ``point``; no two rows share its key.
        step_ms: Usual distance of two scrapes.
        tally: Where what is not used is counted.
    """
    column = {name: codes.whole(points.column(name)) for name in COLUMNS}
    seen = codes.coded([column["instance"], column["replica"]])
    is_up = one_of(column["measure"], (Measure.UP,))
    is_id = one_of(column["measure"], (Measure.BROKER_ID,))
    of_use = pc.invert(pc.or_(is_up, is_id))
    adopted = _adopted(
        [
            Origin(Target.read(str(instance)), str(replica))
            for instance, replica in zip(
                column["instance"].take(seen.firsts).to_pylist(),
                column["replica"].take(seen.firsts).to_pylist(),
                strict=True,
            )
        ]
    )
    origins = tuple(dict.fromkeys(adopted))
    number = {one: at for at, one in enumerate(origins)}
    whose = codes.integers([number[one] for one in adopted]).take(seen.codes)
    told = pc.unique(whose.filter(pc.invert(is_up))).to_pylist()
    keys = codes.paired(whose, column["ts_ms"], SHIFT)
    identities = Identities(
        zip(
            [origins[one].target for one in whose.filter(is_id).to_pylist()],
            column["ts_ms"].filter(is_id).to_pylist(),
            column["value"].filter(is_id).to_pylist(),
            strict=True,
        ),
        tally,
    )
    asked = _asked(
        origins, keys.filter(is_up).to_pylist(), column["value"].filter(is_up).to_pylist()
    )
    _weighed(asked, {origins[one].target for one in told}, identities, tally)
    names = tuple(column[name].filter(of_use) for name in NAMES)
    origin, values = whose.filter(of_use), column["value"].filter(of_use)
    times = column["ts_ms"].filter(of_use)
    lone = {number[one] for one in origins if one not in asked} & set(pc.unique(origin).to_pylist())
    at_scrape = _gathered(origin, times, names, lone, step_ms)
    keys_of_use = codes.paired(origin, at_scrape, SHIFT)
    distinct = pc.unique(keys_of_use)
    read = [divmod(one, SHIFT) for one in distinct.to_pylist()]
    tally.add(Fate.NO_UP, len(lone))
    for one, ts in read if lone else ():
        if one in lone:
            asked.setdefault(origins[one], {})[ts] = True
    found = scrapes.chosen(
        asked,
        _by_origin(origins, read),
        identities,
        step_ms,
        surmised={origins[one] for one in lone},
        alike=Rivals(origins, origin, names, times, values).alike,
    )
    return _sorted_out(
        found,
        [found.places[origins[one], ts] for one, ts in read],
        pc.index_in(keys_of_use, value_set=distinct),
        origin=origin,
        names=names,
        values=values,
        moved=pc.not_equal(times, at_scrape),
        tally=tally,
    )


def _adopted(origins: Sequence[Origin]) -> list[Origin]:
    """Series without the label that names the broker (`up`, as a rule) belong to the one broker that their target names."""
    brokers: dict[Target, set[str]] = {}
    for one in origins:
        if one.target.broker:
            brokers.setdefault(one.target._replace(broker=""), set()).add(one.target.broker)
    sole = {target: min(several) for target, several in brokers.items() if len(several) == 1}
    return [
        one._replace(
            target=one.target._replace(broker=one.target.broker or sole.get(one.target, ""))
        )
        for one in origins
    ]


def _asked(
    origins: Sequence[Origin], keys: Sequence[int], values: Sequence[float]
) -> dict[Origin, dict[int, bool]]:
    found: dict[Origin, dict[int, bool]] = {}
    for key, value in zip(keys, values, strict=True):
        origin, ts = divmod(key, SHIFT)
        found.setdefault(origins[origin], {})[ts] = value == 1
    return found


def _weighed(
    asked: dict[Origin, dict[int, bool]],
    telling: Collection[Target],
    identities: Identities,
    tally: Tally,
) -> None:
    """Leaves scrapes of brokers only.

    A target that tells nothing but ``up`` may be anything on the broker's host, or beside it. That it answers says nothing
    of the broker. That it does not is all that is known of a broker that never answers; ``telemetry.brokerId`` has to
    name it, and others of its job have to be brokers.

    Args:
        asked: When each origin was scraped; others are taken out.
        telling: What told more than ``up``.
        identities: Who targets are.
        tally: Where scrapes that are not used are counted.
    """
    jobs = {one.job for one in telling}
    for origin in list(asked):
        target, tells = origin.target, origin.target in telling
        may_be = tells or (bool(target.broker) and target.job in jobs)
        if not may_be or not identities.knows(target):
            tally.add(Fate.UP_UNKNOWN, len(asked[origin]))
        if not may_be:
            del asked[origin]
        elif not tells:
            tally.add(Fate.UP_ALONE, sum(asked[origin].values()))
            asked[origin] = {ts: up for ts, up in asked[origin].items() if not up}


def _by_origin(
    origins: Sequence[Origin], read: Iterable[tuple[int, int]]
) -> dict[Origin, list[int]]:
    found: dict[Origin, list[int]] = {}
    for origin, ts in read:
        found.setdefault(origins[origin], []).append(ts)
    return found


def _gathered(
    origin: pa.Int64Array,
    times: pa.Int64Array,
    names: tuple[pa.Array, ...],
    lone: Iterable[int],
    step_ms: int,
) -> pa.Int64Array:
    """The time of each point's scrape. Origins without ``up`` (a file that has only rates) answered where they gave a value."""
    found = times
    for number in lone:
        mine = pc.equal(origin, number)
        own = times.filter(mine)
        series = codes.coded([one.filter(mine) for one in names]).codes
        distinct = pc.unique(own)
        scrape_of = surmised.gathered(distinct.to_pylist(), surmised.reach(series, own, step_ms))
        scrape = codes.integers([scrape_of[ts] for ts in distinct.to_pylist()])
        found = pc.replace_with_mask(found, mine, scrape.take(pc.index_in(own, value_set=distinct)))
    return found


def _sorted_out(
    found: Scrapes,
    places: Sequence[Place],
    at: pa.Array,
    *,
    origin: pa.Array,
    names: tuple[pa.Array, ...],
    values: pa.Array,
    moved: pa.Array,
    tally: Tally,
) -> Placed:
    """Points by their places; what the chosen replica lacks is taken from another one."""
    rows = pa.array([one.row for one in places], pa.int64()).take(at)
    fate_of = [None if one.fate is None else _FATES.index(one.fate) for one in places]
    fates = pa.array(fate_of, pa.int8()).take(at)
    snapped = pc.and_(pc.and_(moved, pc.is_valid(rows)), pc.is_null(fates))
    fates = pc.if_else(snapped, pa.scalar(_FATES.index(Fate.SNAPPED), pa.int8()), fates)
    others = codes.sure(
        pc.is_in(fates, value_set=pa.array([_FATES.index(one) for one in _OTHERS], pa.int8()))
    )
    lent = None
    if codes.count(others):
        spare = pa.array([one.spare for one in places], pa.int64()).take(at)
        lent = _lent(found, rows, spare, origin, names)
        rows = pc.if_else(lent, spare, rows)
        fates = pc.if_else(lent, pa.scalar(_FATES.index(Fate.BORROWED), pa.int8()), fates)
    for one in pc.value_counts(fates.drop_null()).to_pylist():
        tally.add(_FATES[one["values"]], one["counts"])
    made = Placed(scrapes=found, rows=rows, names=names, values=values).taken(pc.is_valid(rows))
    beside = codes.count(snapped) or any(one.fate is Fate.SNAPPED for one in places)
    double = lent is not None or bool(beside)
    return _once(made) if double else made


def _lent(
    found: Scrapes, rows: pa.Array, spare: pa.Array, origin: pa.Array, names: tuple[pa.Array, ...]
) -> pa.Array:
    """Points of other replicas whose series the chosen one lacks in that hour: from one replica each, which has most."""
    place = pc.coalesce(rows, spare)
    usable = pc.is_valid(place)
    place, own = pc.fill_null(place, 0), pc.is_valid(rows)
    brokers = {broker: number for number, broker in enumerate(found.rows)}
    broker = codes.integers([brokers[one.broker] for one in found.moments] or [0]).take(place)
    hour = codes.integers([one.ts_ms // HOUR_MS % 24 for one in found.moments] or [0]).take(place)
    series = codes.paired(codes.coded([broker, *names]).codes, hour, 24)
    there = pc.unique(series.filter(own))
    wanted = pc.and_(pc.and_(usable, pc.invert(own)), pc.invert(pc.is_in(series, value_set=there)))
    pairs = codes.paired(series, origin, 2**20)
    best: dict[int, tuple[int, int]] = {}
    for one in pc.value_counts(pairs.filter(wanted)).to_pylist():
        which, whose = divmod(one["values"], 2**20)
        best[which] = max(best.get(which, (0, 0)), (one["counts"], -whose))
    chosen = codes.integers([which * 2**20 - whose for which, (_, whose) in best.items()])
    return pc.and_(wanted, pc.is_in(pairs, value_set=chosen))


def _once(points: Placed) -> Placed:
    """One point per series and moment: where two were counted for one scrape, the larger."""
    if not len(points.rows):
        return points
    series = codes.coded([points.rows, *points.names])
    if len(series) == len(points.rows):
        return points
    table = pa.table({"code": series.codes, "value": points.values})
    most = table.group_by("code", use_threads=False).aggregate([("value", "max")])
    most = most.take(pc.sort_indices(most.column("code")))
    return Placed(
        scrapes=points.scrapes,
        rows=points.rows.take(series.firsts),
        names=tuple(one.take(series.firsts) for one in points.names),
        values=codes.whole(most.column("value_max")),
    )
