"""Whether two instances with one broker id can be one broker, by the use that each recorded in an hour."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.ingest.assembly import row_codes
from reconciler.evidence.ingest.dialects.targets import SampleOrigin
from reconciler.usage.tables import Measure

HOUR_MS: Final = 3_600_000

LIKE: Final = 4
"""Means of an hour that differ by more than one part in so many are of two brokers. One broker that is scraped twice has
other readings each time, and nearly the same mean."""

_Line = tuple[str, str, str, str, str]


class DuplicateBrokerCheck:
    """Readings of a day by who made them; looked at only where two instances have one id.

    Args:
        origins: By the number that readings have.
        numbers: Of the origin of each reading.
        names: Measure, quota type, user, client id and ip of each.
        times: Milliseconds.
        values: As recorded.
    """

    def __init__(
        self,
        origins: Sequence[SampleOrigin],
        numbers: pa.Int64Array,
        names: tuple[pa.Array, ...],
        times: pa.Int64Array,
        values: pa.DoubleArray,
    ) -> None:
        self._origins, self._numbers, self._names = origins, numbers, names
        self._times, self._values = times, values

    def alike(self, first: SampleOrigin, second: SampleOrigin, hour: int) -> bool | None:
        """Whether at least half of what was used by the first or the second of them has the same mean with both.

        Only types of quota that both report are compared, because one broker may have two exporters; and only what was
        used at all. ``None`` = there is nothing of that.

        Args:
            first: An origin.
            second: Another one.
            hour: Since the epoch.
        """
        first_means, its = self._means.get((first, hour), {}), self._means.get((second, hour), {})
        kinds = {line[:2] for line in first_means} & {line[:2] for line in its}
        same_count = different = 0
        for line in first_means.keys() | its.keys():
            high = max(first_means.get(line, 0.0), its.get(line, 0.0))
            if line[:2] in kinds and high > 0:
                apart = LIKE * abs(first_means.get(line, 0.0) - its.get(line, 0.0)) > high
                same_count, different = same_count + (not apart), different + apart
        return None if not same_count and not different else same_count >= different

    @cached_property
    def _means(self) -> Mapping[tuple[SampleOrigin, int], Mapping[_Line, float]]:
        used = pc.and_(pc.equal(self._names[0], Measure.RATE.value), pc.is_finite(self._values))
        names = tuple(column.filter(used) for column in self._names)
        hours = pc.divide(self._times.filter(used), HOUR_MS)
        numbers = self._numbers.filter(used)
        lines = row_codes.coded([numbers, hours, *names])
        table = pa.table({"line": lines.codes, "value": self._values.filter(used)})
        means = table.group_by("line", use_threads=False).aggregate([("value", "mean")])
        firsts = lines.firsts.take(means["line"].combine_chunks())
        means_by_origin: dict[tuple[SampleOrigin, int], dict[_Line, float]] = {}
        columns = [column.take(firsts).to_pylist() for column in (numbers, hours, *names)]
        for number, hour, measure, kind, user, client_id, ip, mean in zip(
            *columns, means["value_mean"].to_pylist(), strict=True
        ):
            whose = means_by_origin.setdefault((self._origins[number], hour), {})
            whose[measure, kind, user, client_id, ip] = mean
        return means_by_origin
