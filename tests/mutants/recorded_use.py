"""Faults planted where recorded use is read, stored, evaluated and shown."""

from tests.mutants.fault import Fault

WHATIF = "tests/usage/impact/test_what_if.py"
TOLD = "tests/usage/test_whatif_told.py"
VERDICT = "tests/usage/impact/test_verdict.py"
BUDGET_LOADS = "tests/evidence/analysis/test_budget_loads.py"
LOAD = "tests/usage/kernel/test_broker_load.py"
RECORDED = "tests/usage/impact/test_recorded_limits.py"
SIZING = "tests/usage/recommendation/test_limit_sizes.py"
ASSEMBLY = "tests/evidence/ingest/test_day_tables.py"
DAYS = "tests/evidence/ingest/test_sample_days.py"
SERVER = "tests/evidence/ingest/test_server_import.py"
THROTTLING = "tests/usage/kernel/test_throttling.py"
LOOP = "tests/usage/kernel/test_request_loop.py"
REPLAY = "tests/usage/kernel/test_request_replay.py"
POLICY = "tests/manifest/project/test_simulation_policy.py"
LAKE = "tests/evidence/store/test_lake.py"
SHOWN = "tests/render/test_use_reports.py"


def in_modules(*faults: tuple[str, str, str, str, str]) -> tuple[Fault, ...]:
    """Faults of modules: path below the package, description, text, replacement, tests."""
    return tuple(
        Fault(what=what, file=f"reconciler/{module}.py", old=old, new=new, tests=(tests,))
        for module, what, old, new, tests in faults
    )


FAULTS: tuple[Fault, ...] = (
    *in_modules(
        (
            "usage/kernel/broker_load",
            "a client is counted beside the recorded total that contains it",
            "changed - recorded if self._is_total else changed",
            "changed",
            BUDGET_LOADS,
        ),
        (
            "evidence/analysis/budget_loads",
            "the broker with the least load is compared with a budget",
            "    worst = max(figures",
            "    worst = min(figures",
            BUDGET_LOADS,
        ),
        (
            "evidence/analysis/budget_loads",
            "a limit that is used in full could give room",
            "in_kafka_units(kind, max(rates)) * FAR_ABOVE <= share.limit",
            "in_kafka_units(kind, max(rates)) <= share.limit",
            BUDGET_LOADS,
        ),
        (
            "usage/impact/what_if",
            "the broker with the least throttling is shown for a tenant",
            "        -impact_row.severity,",
            "        impact_row.severity,",
            TOLD,
        ),
        (
            "usage/impact/what_if",
            "a client without samples counts as unthrottled",
            "before.throttled_ms if before and not unseen else None",
            "before.throttled_ms if before and not unseen else 0",
            f"{WHATIF}::test_an_empty_series_is_reported_as_no_samples",
        ),
        (
            "usage/impact/what_if",
            "an impact that could not be shown counts as judged",
            "        left_blind=sum(not impact_row.judged for impact_row in remaining_rows),",
            "        left_blind=0,",
            TOLD,
        ),
        (
            "usage/impact/recorded_limits",
            "series of another mapping of clients to buckets are used",
            "            broken_buckets |= set(buckets) - affected_buckets",
            "            broken_buckets |= set()",
            f"{WHATIF}::test_series_recorded_with_a_different_counting_of_clients_break_the_history",
        ),
        (
            "usage/impact/recorded_limits",
            "only one quota snapshot of a window determines the buckets",
            "books = (book(state, key) for state in recorded.states)",
            "books = (book(state, key) for state in recorded.states[-1:])",
            RECORDED,
        ),
        (
            "evidence/ingest/censored_samples",
            "the rate of a throttled consumer counts as its demand",
            "pc.or_(pc.and_(far, throttled), lingers)",
            "lingers",
            ASSEMBLY,
        ),
        (
            "usage/recommendation/limit_sizes",
            "a raised limit is lowered on the next day",
            "            value = max(value, min(raised, case.current or 0))",
            "            pass",
            SIZING,
        ),
        (
            "usage/recommendation/limit_sizes",
            "a limit slightly above ceiling or budget is kept",
            "        if near and case.current <= top:",
            "        if near:",
            SIZING,
        ),
        (
            "usage/impact/query",
            "the loosest of several current limits is reported",
            "before_units=min((units",
            "before_units=max((units",
            f"{WHATIF}::test_for_several_buckets_that_are_joined_the_lowest_current_limit_is_reported",
        ),
        (
            "usage/impact/replay",
            "parts are compared with the least throttled one",
            "    longest = max(before",
            "    longest = min(before",
            VERDICT,
        ),
        (
            "usage/impact/what_if",
            "an impact at its bound is refused",
            "allowed is not None and daily > allowed",
            "allowed is not None and daily >= allowed",
            VERDICT,
        ),
        (
            "usage/impact/tier_policy",
            "a label of a document relaxes the policy",
            "_stricter(tier_rule.tolerance, self.usual.tolerance)",
            "tier_rule.tolerance",
            POLICY,
        ),
        (
            "usage/kernel/broker_load",
            "a budget that is exactly used counts as exceeded",
            "loads > MILLION",
            "loads >= MILLION",
            LOAD,
        ),
        (
            "usage/kernel/broker_load",
            "the largest budget of a window is reported",
            "budget_units=int(available.min())",
            "budget_units=int(available.max())",
            LOAD,
        ),
        (
            "usage/kernel/broker_load",
            "an unrecorded total leaves nothing unattributed",
            "    if not total_units:\n        return None",
            "    if not total_units:\n        return 0",
            LOAD,
        ),
        (
            "usage/kernel/throttling",
            "a session starts with the backlog of the previous one",
            "    net[demand.begins[1:]] -= demand.arrived_by_session[:-1]\n",
            "",
            THROTTLING,
        ),
        (
            "usage/kernel/throttling",
            "a limit just above the peak is computed without throttling",
            "    if limit >= demand.peak + CLEAR or",
            "    if limit >= demand.peak - CLEAR or",
            THROTTLING,
        ),
        (
            "usage/kernel/request_loop",
            "the window of a rate is a second longer",
            "missing = SAMPLES - 1 - math",
            "missing = SAMPLES - math",
            LOOP,
        ),
        (
            "usage/kernel/request_loop",
            "a fetch that was answered empty stays counted",
            "record(samples, -counted, now)",
            "record(samples, 0.0, now)",
            LOOP,
        ),
        (
            "usage/kernel/request_loop",
            "a batch that a fetch cuts is not read again",
            "return amount - min(amount, requests.batch) / 2",
            "return amount - 0 * min(amount, requests.batch) / 2",
            LOOP,
        ),
        (
            "usage/kernel/request_loop",
            "requests of a producer that waits are as small as before",
            "queues[queue, IDLE] = 0.0\n        if not",
            "queues[queue, IDLE] = 1.0\n        if not",
            LOOP,
        ),
        (
            "usage/kernel/request_replay",
            "the shortest waits are replayed first",
            "(-episode.backlog, episode.begin)",
            "(episode.backlog, episode.begin)",
            REPLAY,
        ),
        (
            "usage/kernel/request_replay",
            "an episode does not begin before clients wait",
            "        wider[:-1] |= is_warm[1:] & same\n",
            "",
            REPLAY,
        ),
        (
            "usage/kernel/request_replay",
            "a hidden burst is at the wrong end of its reading",
            "is_last = after > before",
            "is_last = after < before",
            REPLAY,
        ),
        (
            "usage/kernel/request_replay",
            "all bytes of a producer are records",
            "    if not part:\n",
            "    if part:\n",
            REPLAY,
        ),
        (
            "usage/clients",
            "unstated consumers fetch little at once",
            "yield from self._cases(self.most_bytes.most, part_bytes",
            "yield from self._cases(self.most_bytes.least, part_bytes",
            VERDICT,
        ),
        (
            "usage/impact/replay",
            "a figure that unstated requests could change is one figure",
            "return extremes([*least, *most])",
            "return extremes(least)",
            VERDICT,
        ),
        (
            "usage/impact/replay",
            "bursts that a reading hides are left out",
            "    if all(is_near(case, likely_forecast) for case in cases):",
            "    if any(is_near(case, likely_forecast) for case in cases):",
            VERDICT,
        ),
        (
            "evidence/store/compiled_code",
            "compiled code is kept where others may write",
            "usable = is_private(folder) and",
            "usable =",
            "tests/evidence/store/test_compiled_code.py",
        ),
        (
            "usage/kernel/series",
            "the weakest censoring of several buckets applies",
            'censored=combined("censored", np.maximum)',
            'censored=combined("censored", np.minimum)',
            "tests/usage/kernel/test_series.py",
        ),
    ),
    *in_modules(
        (
            "evidence/store/lake",
            "a day that another writer replaced meanwhile is overwritten",
            "self.store.put(unit.path, written, after=version)",
            "self.store.put(unit.path, written, after=self.store.version(unit.path))",
            LAKE,
        ),
        (
            "evidence/store/lake",
            "damaged sums stay damaged",
            "                if not is_derived:",
            "                if True:",
            f"{DAYS}::test_damaged_sums_are_made_from_the_samples_by_the_next_run",
        ),
        (
            "evidence/store/client_evidence",
            "a change of another cluster in the audit log counts",
            "entry.cluster_id != cluster_id or ",
            "",
            "tests/evidence/store/test_client_evidence.py",
        ),
        (
            "evidence/store/lake",
            "an object in the wrong place is read",
            "        if facts.unit != str(unit):",
            "        if not facts.unit:",
            LAKE,
        ),
        (
            "evidence/store/files/parquet_files",
            "the first series of a row group is not looked for in it",
            "all(low <= value <= high for value",
            "all(low < value <= high for value",
            "tests/evidence/store/test_published_evidence.py",
        ),
        (
            "evidence/store/published_evidence",
            "old evidence counts if it was published recently",
            "    if now_ms - to_ms > max_age_ms:",
            "    if now_ms - made_ms > max_age_ms:",
            "tests/evidence/store/test_published_evidence.py",
        ),
        (
            "evidence/store/recorded_window",
            "scrapes that failed count as covered",
            'lasted = pc.if_else(rows.column("up"), rows.column("dt_ms"), 0)',
            'lasted = rows.column("dt_ms")',
            "tests/evidence/store/test_recorded_window.py",
        ),
        (
            "evidence/store/recorded_window",
            "a broker that never answered does not lower the coverage",
            "rows_by_broker = rows.append_column(",
            'rows_by_broker = rows.filter(rows["up"]).append_column(',
            "tests/evidence/store/test_recorded_window.py",
        ),
        (
            "evidence/store/files/arrow_tables",
            "a column that must not be null is accepted with nulls",
            "        if holes:",
            "        if holes == rows.num_rows:",
            "tests/evidence/store/files/test_arrow_tables.py",
        ),
    ),
    *in_modules(
        (
            "evidence/ingest/scrapes",
            "a broker that was down counts as answering without use",
            "[ts] = value == 1",
            "[ts] = value >= 0",
            f"{ASSEMBLY}::test_a_failed_scrape_is_a_gap_and_not_zero",
        ),
        (
            "evidence/ingest/sample_grid",
            "a broker that counts no client reports no use",
            "return is_measured or row in",
            "return True or row in",
            f"{ASSEMBLY}::test_a_missing_point_is_a_gap_unless_the_broker_is_known_to_count",
        ),
        (
            "evidence/ingest/sample_grid",
            "series that stay zero after the last quota was removed count as use",
            "named_rows if is_measured is None else used",
            "named_rows",
            "tests/evidence/ingest/test_silence.py",
        ),
        (
            "evidence/ingest/limit_history",
            "a limit in one of two quota snapshots applies all the time",
            "return all(unique_answers) if unique_answers else None",
            "return any(unique_answers) if unique_answers else None",
            "tests/evidence/ingest/test_limit_history.py",
        ),
        (
            "evidence/ingest/broker_identities",
            "another job on the host counts for the broker",
            "            del up_by_origin[origin]",
            "            pass",
            "tests/evidence/ingest/test_origins.py",
        ),
        (
            "evidence/ingest/points",
            "a target is identified by its instance without the job",
            'ScrapeTarget(instance, series.label("job"), ',
            'ScrapeTarget(instance, "", ',
            "tests/evidence/ingest/test_points.py",
        ),
        (
            "evidence/ingest/scrapes",
            "two clusters with the same ids are mixed",
            "if len(both) == 2 and together >= LIVE_MS:",
            "if len(both) > 2 and together >= LIVE_MS:",
            "tests/evidence/ingest/test_origins.py",
        ),
        (
            "evidence/ingest/scrapes",
            "slightly later series count as another scrape",
            "abs(near - ts) > self._tolerance_ms",
            "abs(near - ts) > 0",
            "tests/evidence/ingest/test_silence.py",
        ),
        (
            "evidence/ingest/sample_days",
            "another step rebuilds all days",
            "if first is None or self._rebuild",
            "if first is None or not self._rebuild",
            f"{DAYS}::test_another_step_rebuilds_no_day_until_a_rebuild_and_late_points_keep_the_old_step",
        ),
        (
            "evidence/ingest/sample_grid",
            "an unrecorded delay counts as zero",
            "pc.if_else(absent, 0, _delays(delay))",
            "pc.if_else(absent, 0, pc.fill_null(_delays(delay), 0))",
            f"{ASSEMBLY}::test_delays_of_nan_mean_no_throttling_and_absent_delays_are_unknown",
        ),
        (
            "evidence/ingest/broker_readings",
            "a restarted counter counts backwards",
            "pc.if_else(reset, value, pc.subtract(value, old))",
            "pc.subtract(value, old)",
            f"{ASSEMBLY}::test_counters_become_rates_and_a_reset_counts_from_zero",
        ),
        (
            "evidence/ingest/limit_history",
            "a limit applies until the snapshot with another one",
            "states=(before.state, snapshot.state)",
            "states=(before.state,)",
            f"{ASSEMBLY}::test_between_two_snapshots_that_differ_no_limit_is_certain",
        ),
        (
            "evidence/ingest/censored_samples",
            "without quota snapshots no client counts as throttled",
            "pc.or_(near, unseen)",
            "near",
            f"{ASSEMBLY}::test_without_a_snapshot_a_delay_leaves_request_time_unknown_and_no_delay_does_not",
        ),
        (
            "evidence/ingest/points",
            "the smaller of two values for one time stays",
            '("value", "descending")',
            '("value", "ascending")',
            "tests/evidence/ingest/test_points.py::test_repeated_points_are_counted_and_the_larger_of_different_values_is_kept",
        ),
        (
            "evidence/ingest/cluster_sources",
            "a matcher accepts every cluster with the same prefix",
            "self._pattern.fullmatch(actual_value)",
            "self._pattern.match(actual_value)",
            "tests/evidence/ingest/test_cluster_sources.py",
        ),
        (
            "evidence/ingest/dialect",
            "the first of two matching dialects is used",
            "            case [dialect]:",
            "            case [dialect, *_]:",
            "tests/evidence/ingest/test_dialect.py",
        ),
        (
            "evidence/ingest/server_import",
            "one half of a time that is too much for the server is never requested",
            "return earlier + await self._series(selector, middle, to_ms)",
            "return earlier",
            f"{SERVER}::test_a_query_that_times_out_is_split_into_halves_of_time",
        ),
        (
            "evidence/ingest/sample_days",
            "a run reports the next day as fetched",
            "min(self._reading.cursor_ms, _bounds(self._unit.day)[1])",
            "self._reading.cursor_ms",
            f"{DAYS}::test_the_cursor_never_passes_a_day_that_was_not_written",
        ),
        (
            "evidence/ingest/sample_days",
            "a fragment of a day replaces it",
            "        if all(new >= before for",
            "        if any(new >= before for",
            f"{DAYS}::test_a_source_past_its_retention_removes_nothing",
        ),
        (
            "evidence/ingest/sample_days",
            "an import without the hour before midnight replaces the day",
            "self._hours = (len(self._before), *",
            "self._hours = (0, *",
            f"{DAYS}::test_a_fragment_keeps_the_samples_that_follow_from_the_previous_day",
        ),
        (
            "evidence/ingest/sample_days",
            "a day of a killed run counts as complete",
            "all(unit.origin == first for unit in units)",
            "True",
            f"{DAYS}::test_a_day_that_a_killed_run_wrote_in_part_is_read_again",
        ),
        (
            "evidence/ingest/server_import",
            "late samples are never fetched",
            "min(reached, to_ms) - REFETCH_MS",
            "min(reached, to_ms)",
            f"{SERVER}::test_a_run_starts_at_the_day_in_which_the_last_one_ended_minus_three_hours",
        ),
        (
            "evidence/ingest/server_import",
            "a gap is skipped",
            "follows=reached is None or begin <= reached",
            "follows=True",
            f"{SERVER}::test_a_run_with_a_hole_does_not_move_the_start_of_the_next_run",
        ),
        (
            "evidence/ingest/server_import",
            "a failing server leaves a day that counts as complete",
            "fetch.missing.append((fetch.reached, span.to_ms))",
            "pass",
            f"{SERVER}::test_the_day_of_a_failure_lists_missing_data_until_it_was_read",
        ),
    ),
    *in_modules(
        (
            "manifest/project/simulation_policy",
            "a bound of no new throttling permits any",
            "        if daily is None\n",
            "        if not daily or not _ms(daily)\n",
            POLICY,
        ),
    ),
    *in_modules(
        (
            "render/use/report_tables",
            "a lower bound is shown as exact",
            "BOUNDS[row.bound] + figure if is_known else figure",
            "figure",
            SHOWN,
        ),
        (
            "render/use/report_tables",
            "an unknown percentile counts as no limit",
            '"-" if units is None else units_text(kind, units)',
            "units_text(kind, units)",
            SHOWN,
        ),
        (
            "render/page/writer",
            "a client's name is not escaped",
            "    return escape(escaped(text))",
            "    return escaped(text)",
            "tests/render/page/test_writer.py",
        ),
        (
            "render/use/units",
            "a little throttling per day counts as none",
            "    return -(-length_ms * DAY_MS // covered_ms)",
            "    return length_ms * DAY_MS // covered_ms",
            "tests/render/use/test_units.py",
        ),
    ),
    *in_modules(
        (
            "cli/output",
            "missing required evidence is accepted",
            "require_evidence and not simulation.enough",
            "require_evidence and not simulation.rows",
            "tests/cli/test_evidence.py::test_missing_required_evidence_exits_5",
        ),
        (
            "cli/output",
            "a plan that the policy refuses is accepted",
            "    if simulation.breaches:\n        return ExitCode.REFUSED\n",
            "",
            "tests/cli/test_evidence.py::test_throttled_clients_are_shown_where_evidence_is_configured",
        ),
        (
            "app/change/evidence",
            "stale evidence is used",
            "isinstance(published, EvidenceUnavailable) or note.stale:",
            "isinstance(published, EvidenceUnavailable):",
            "tests/cli/test_evidence.py::test_stale_evidence_is_not_used",
        ),
        (
            "cli/output",
            "empty required evidence is accepted",
            "require_evidence and not simulation.enough",
            "require_evidence and not simulation.evidence",
            "tests/cli/usage/test_simulate.py::test_a_window_without_samples_exits_5_only_where_evidence_is_required",
        ),
    ),
)
