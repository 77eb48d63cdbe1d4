"""The throttle models as window expressions: one exchange and one sort, for one limit or for many at once.

The definition is :mod:`reconciler.usage.throttle_models`. A recursion with a reset at zero is the distance from the lowest
prefix sum of the session so far::

    S = sum(a - g) over w;  s = sum(fresh) over w;  B = S - (min(struct(-s, least(S, S - (a - g)))) over w).v
    w = the series, ordered by time

so the sum never has to begin anew: the latest session has the smallest ``-s``. All four models are this one, with
other thresholds: where nothing carries over every sample is a session of its own, and request time is compared per
second. What is *waiting* is then B, less the burst that the controller lets pass.

Numbers. A limit above everything recorded so far (:data:`CLEAR` above the running peak), or none, throttles nothing:
B is 0 up to there, so nothing is added to S, and no silence under such a limit can push S out of 64 bits. What was
recorded, and a limit that was reached, still can; then :mod:`reconciler.evidence.spark.usage.wide_sums` has the work done once more, with
``wide``.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from reconciler.evidence.spark.usage import integer_columns
from reconciler.evidence.spark.usage.wide_sums import amount, narrow, total
from reconciler.usage.samples import MAX_UNITS
from reconciler.usage.throttle_models import (
    BURST_WINDOWS,
    DELIVERY_TIMEOUT_MS,
    MIN_DELAY_MS,
    MODEL_OF,
    ThrottleModel,
)

CLEAR: Final = 500
"""A limit so far above a rate lets every sample pass, however short: rounding half up adds less than a unit of 2 ms."""

FIGURES: Final = (
    "throttled_ms", "max_delay_ms", "over_timeout_ms", "delayed_units", "unfinished",
)  # fmt: skip
"""What :func:`forecasts` gives for each limit: fields of ``usage.throttle.Forecast``."""


def prepared(
    samples: DataFrame, series: Sequence[str], max_gap_ms: Column, *, wide: bool = False
) -> DataFrame:
    """Samples with what can be worked out without a limit; as ``usage.throttle.arrivals``.

    Args:
        samples: With the columns of ``series``, ``quota_type``, ``ts_ms``, ``dt_ms``, ``rate_units``; others stay.
        series: What distinguishes one bucket on one broker from another.
        max_gap_ms: A longer gap begins a session.
        wide: Whether sums are to have 38 digits.

    Returns:
        The same rows and, each with a leading underscore: ``fresh`` (a session begins), ``ends`` (it is the last of
        one), ``units`` (a_i), ``load`` and ``span`` (what the model compares with the limit), ``clear`` (a limit that
        throttles nothing so far), ``session`` (its negative number).
        Samples that are out of order, twice or out of range fail the job.
    """
    series_window = Window.partitionBy(*series).orderBy("ts_ms")
    so_far = series_window.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    looked = samples.select(
        "*",
        fn.lag("ts_ms").over(series_window).alias("_before"),
        fn.lead("ts_ms").over(series_window).alias("_next"),
        (fn.max("rate_units").over(so_far) + fn.lit(CLEAR)).alias("_clear"),
    )
    ts, before, after = fn.col("ts_ms"), fn.col("_before"), fn.col("_next")
    arrived = integer_columns.arrived(fn.col("rate_units"), fn.col("dt_ms"))
    by_rate = _model_is(ThrottleModel.APPROXIMATE)
    prepared_samples = looked.select(
        *samples.columns,
        _checked(before.isNull() | (ts - before > max_gap_ms)).alias("_fresh"),
        (after.isNull() | (after - ts > max_gap_ms)).alias("_ends"),
        arrived.alias("_units"),
        "_clear",
        amount(fn.when(by_rate, fn.col("rate_units")).otherwise(arrived), wide=wide).alias("_load"),
        fn.when(by_rate, fn.lit(1000)).otherwise(fn.col("dt_ms")).alias("_span"),
    )
    alone = _model_is(ThrottleModel.REJECTED, ThrottleModel.APPROXIMATE)
    begins = fn.when(fn.col("_fresh") | alone, fn.lit(-1)).otherwise(fn.lit(0))
    return prepared_samples.select("*", fn.sum(begins).over(so_far).alias("_session"))


def _checked(fresh: Column) -> Column:
    """Where sessions begin; a sample that cannot be fails the job. Every figure needs this column, so no plan can do without it."""
    ts, dt, rate = fn.col("ts_ms"), fn.col("dt_ms"), fn.col("rate_units")
    twice = fn.format_string("samples must ascend: %s comes after %s", ts, fn.col("_before"))
    wrong = fn.format_string("the sample at %s has %s units over %s ms", ts, rate, dt)
    return (
        fn.when(ts <= fn.col("_before"), fn.raise_error(twice).cast("boolean"))
        .when((dt <= 0) | (rate < 0) | (rate > MAX_UNITS), fn.raise_error(wrong).cast("boolean"))
        .otherwise(fresh)
    )


def _model_is(*models: ThrottleModel) -> Column:
    kinds = [str(kind) for kind, model in MODEL_OF.items() if model in models]
    return fn.col("quota_type").isin(*kinds)


def with_backlogs(
    ready: DataFrame, series: Sequence[str], limits: Mapping[str, Column], *, wide: bool = False
) -> DataFrame:
    """The backlog B under each limit, as a column of that name; all limits in one pass over the windows.

    Args:
        ready: What :func:`prepared` gave; other columns stay.
        series: As there.
        limits: Name to limit in units, the same for all samples of a series; null = unlimited. At least 1, below
            ``MAX_UNITS``.
        wide: As there.
    """
    so_far = (
        Window.partitionBy(*series)
        .orderBy("ts_ms")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    input_columns = ready.columns
    # Where a limit is clear it was so at every sample before, for the peak only rises: with q >= r + 500 and dt >= 1,
    # g = (q * dt) div 1000 >= (r * dt + 500) div 1000 = a. So B was always 0, and S may begin after it.
    net_loads = {
        name: fn.when(
            limit.isNull() | (limit >= fn.col("_clear")),
            amount(fn.lit(0).cast("bigint"), wide=wide),
        ).otherwise(
            fn.col("_load") - amount(integer_columns.passed(limit, fn.col("_span")), wide=wide)
        )
        for name, limit in limits.items()
    }
    loaded = ready.select(
        *input_columns, *(net_load.alias(f"_x_{name}") for name, net_load in net_loads.items())
    )
    summed = loaded.select(
        "*", *(fn.sum(f"_x_{name}").over(so_far).alias(f"_s_{name}") for name in limits)
    )
    lowest = {
        name: fn.min(
            fn.struct(
                fn.col("_session"),
                fn.least(fn.col(f"_s_{name}"), fn.col(f"_s_{name}") - fn.col(f"_x_{name}")).alias(
                    "v"
                ),
            )
        ).over(so_far)
        for name in limits
    }
    return summed.select(
        *input_columns,
        *((fn.col(f"_s_{name}") - minimum["v"]).alias(name) for name, minimum in lowest.items()),
    )


def waiting(backlog: Column, limit: Column) -> Column:
    """What has to wait, or was refused: under the controller's token bucket only what is beyond its depth."""
    excess = fn.greatest(backlog - limit * fn.lit(BURST_WINDOWS), fn.lit(0))
    return fn.when(_model_is(ThrottleModel.TOKENS), fn.coalesce(excess, fn.lit(0))).otherwise(
        backlog
    )


def is_throttled(waits: Column, limit: Column, min_delay_ms: int = MIN_DELAY_MS) -> Column:
    """Whether this counts as throttled time: false under no limit."""
    least = fn.when(
        _model_is(ThrottleModel.BACKLOG),
        integer_columns.quotient(limit * fn.lit(min_delay_ms) + 999, fn.lit(1000)),
    ).otherwise(fn.lit(1).cast("bigint"))
    return fn.coalesce(waits >= least, fn.expr("false"))


def delay_ms(waits: Column, limit: Column) -> Column:
    """``throttle.delay_ms``; 0 under no limit."""
    return fn.coalesce(integer_columns.delay_ms(waits, limit), fn.lit(0).cast("bigint"))


def rows(
    samples: DataFrame,
    series: Sequence[str],
    limit: Column,
    max_gap_ms: Column,
    *,
    min_delay_ms: int = MIN_DELAY_MS,
    wide: bool = False,
) -> DataFrame:
    """What each sample meets under a limit: the columns of ``usage.throttle.Row`` added to the samples.

    Args:
        samples: As in :func:`prepared`.
        series: As there.
        limit: In units; null = unlimited: then everything is served.
        max_gap_ms: A longer gap begins a session.
        min_delay_ms: A shorter delay is no throttling.
        wide: Whether sums are to have 38 digits; a backlog is cut to 64 bits in the end.
    """
    ready = prepared(samples.withColumn("_limit", limit), series, max_gap_ms, wide=wide)
    samples_with_backlog = with_backlogs(ready, series, {"_held": fn.col("_limit")}, wide=wide)
    samples_with_backlog = samples_with_backlog.withColumn(
        "_waits", waiting(fn.col("_held"), fn.col("_limit"))
    )
    series_window = Window.partitionBy(*series).orderBy("ts_ms")
    zero = fn.lit(0).cast("bigint")
    last = fn.lag("_waits").over(series_window)
    carries = _model_is(ThrottleModel.BACKLOG, ThrottleModel.TOKENS)
    counts = ~_model_is(ThrottleModel.APPROXIMATE)
    queued = fn.when(fn.col("_fresh") | ~carries, zero).otherwise(fn.coalesce(last, zero))
    waits, units = fn.col("_waits"), fn.col("_units")
    figures = {
        "backlog": fn.when(carries, fn.col("_held")).otherwise(zero),
        "served": units + fn.col("_queued") - fn.when(counts, waits).otherwise(zero),
        "delayed": fn.when(counts, fn.least(waits, units)).otherwise(zero),
    }
    return samples_with_backlog.withColumn("_queued", queued).select(
        *samples.columns,
        *(narrow(column, wide=wide).alias(name) for name, column in figures.items()),
        fn.when(carries, delay_ms(waits, fn.col("_limit"))).otherwise(zero).alias("delay_ms"),
        is_throttled(waits, fn.col("_limit"), min_delay_ms).alias("throttled"),
    )


def forecasts(
    samples: DataFrame,
    series: Sequence[str],
    limits: Mapping[str, Column],
    max_gap_ms: Column,
    *,
    extra_columns: Mapping[str, Column] | None = None,
    min_delay_ms: int = MIN_DELAY_MS,
    wide: bool = False,
) -> DataFrame:
    """``usage.throttle.Forecast`` of each series under each limit: one row per series.

    Args:
        samples: As in :func:`prepared`; ``quota_type`` must be one of ``series``.
        series: As there.
        limits: Name to limit in units, a column of ``samples`` that is the same for all of a series.
        max_gap_ms: A longer gap begins a session.
        extra_columns: More aggregates of the samples, by name.
        min_delay_ms: A shorter delay is no throttling.
        wide: Whether sums are to have 38 digits.

    Returns:
        The columns of ``series``, ``samples``, ``covered_ms``, ``arrived_units``, those of ``extra_columns``, and for each limit a
        struct of ``throttled_ms``, ``max_delay_ms``, ``over_timeout_ms``, ``delayed_units``, ``unfinished``.
    """
    limited = samples.withColumns({f"_q_{name}": limit for name, limit in limits.items()})
    ready = prepared(limited, series, max_gap_ms, wide=wide)
    samples_with_backlogs = with_backlogs(
        ready, series, {f"_b_{name}": fn.col(f"_q_{name}") for name in limits}, wide=wide
    )
    sums: list[Column] = []
    for name in limits:
        sums += _sums(name, min_delay_ms, wide=wide)
    totals = samples_with_backlogs.groupBy(*series).agg(
        fn.count(fn.lit(1)).alias("samples"),
        fn.sum("dt_ms").alias("covered_ms"),
        total(fn.col("_units"), wide=wide).alias("arrived_units"),
        *((column.alias(name)) for name, column in (extra_columns or {}).items()),
        *(fn.first(f"_q_{name}").alias(f"_q_{name}") for name in limits),
        *sums,
    )
    return totals.select(
        *series,
        "samples",
        "covered_ms",
        "arrived_units",
        *(extra_columns or {}),
        *(_forecast(name).alias(name) for name in limits),
    )


def _sums(name: str, min_delay_ms: int, *, wide: bool) -> list[Column]:
    limit, backlog = fn.col(f"_q_{name}"), fn.col(f"_b_{name}")
    waits = waiting(backlog, limit)
    zero = fn.lit(0).cast("bigint")
    late = integer_columns.quotient(limit * fn.lit(DELIVERY_TIMEOUT_MS + 1) + 999, fn.lit(1000))
    # A backlog of any size outlives its session; a debt of tokens only if it is a delay, of a millisecond at least.
    one_ms = integer_columns.quotient(limit + fn.lit(999), fn.lit(1000))
    outlives = fn.when(_model_is(ThrottleModel.BACKLOG), waits > 0).otherwise(
        _model_is(ThrottleModel.TOKENS) & fn.coalesce(waits >= one_ms, fn.expr("false"))
    )
    delayed = fn.when(_model_is(ThrottleModel.APPROXIMATE), zero).otherwise(
        fn.least(waits, fn.col("_units"))
    )
    return [
        fn.sum(
            fn.when(is_throttled(waits, limit, min_delay_ms), fn.col("dt_ms")).otherwise(0)
        ).alias(f"_throttled_{name}"),
        fn.max(waits).alias(f"_worst_{name}"),
        fn.sum(fn.when(waits >= late, fn.col("dt_ms")).otherwise(0)).alias(f"_over_{name}"),
        total(delayed, wide=wide).alias(f"_delayed_{name}"),
        fn.sum(fn.when(fn.col("_ends") & outlives, fn.lit(1)).otherwise(0)).alias(
            f"_unfinished_{name}"
        ),
    ]


def _forecast(name: str) -> Column:
    knows_delay = _model_is(ThrottleModel.BACKLOG, ThrottleModel.TOKENS)
    delay = delay_ms(fn.col(f"_worst_{name}"), fn.col(f"_q_{name}"))
    return fn.struct(
        fn.col(f"_throttled_{name}").alias("throttled_ms"),
        fn.when(knows_delay, delay).alias("max_delay_ms"),
        fn.when(knows_delay, fn.col(f"_over_{name}")).alias("over_timeout_ms"),
        fn.col(f"_delayed_{name}").alias("delayed_units"),
        fn.col(f"_unfinished_{name}").cast("int").alias("unfinished"),
    )


def trials(
    samples: DataFrame,
    series: Sequence[str],
    limits: Mapping[str, Column],
    max_gap_ms: Column,
    *,
    min_delay_ms: int = MIN_DELAY_MS,
    wide: bool = False,
) -> DataFrame:
    """What sizing needs of many limits: throttled time and worst delay only, as arrays in the order of ``limits``.

    Arguments as in :func:`forecasts`.

    Returns:
        The columns of ``series``, ``covered_ms``, ``limits``, ``throttled_ms`` and ``max_delay_ms``; the last three arrays.
    """
    limited = samples.withColumns({f"_q_{name}": limit for name, limit in limits.items()})
    ready = prepared(limited, series, max_gap_ms, wide=wide)
    samples_with_backlogs = with_backlogs(
        ready, series, {f"_b_{name}": fn.col(f"_q_{name}") for name in limits}, wide=wide
    )
    sums: list[Column] = []
    for name in limits:
        sums += _sums(name, min_delay_ms, wide=wide)[:2]
    totals = samples_with_backlogs.groupBy(*series).agg(
        fn.sum("dt_ms").alias("covered_ms"),
        *(fn.first(f"_q_{name}").alias(f"_q_{name}") for name in limits),
        *sums,
    )
    knows_delay = _model_is(ThrottleModel.BACKLOG, ThrottleModel.TOKENS)
    return totals.select(
        *series,
        "covered_ms",
        fn.array(*(fn.col(f"_q_{name}") for name in limits)).alias("limits"),
        fn.array(*(fn.col(f"_throttled_{name}") for name in limits)).alias("throttled_ms"),
        fn.array(
            *(
                fn.when(knows_delay, delay_ms(fn.col(f"_worst_{name}"), fn.col(f"_q_{name}")))
                for name in limits
            )
        ).alias("max_delay_ms"),
    )
