"""Faults planted where recorded use is read, kept, judged and shown: what is not known told as a number, old as new, many as one."""

from tests.mutants.fault import Fault

WHATIF = "tests/usage/test_whatif.py"
TOLD = "tests/usage/test_whatif_told.py"
VERDICT = "tests/usage/test_verdict.py"
LOAD = "tests/usage/test_load.py"
ASSEMBLY = "tests/telemetry/test_assembly.py"
DAYS = "tests/telemetry/test_days.py"
SERVER = "tests/telemetry/test_from_server.py"
POLICY = "tests/manifest/test_whatif_policy.py"
LAKE = "tests/lake/test_lake.py"
EXPIRY = "tests/lake/test_expiry.py"
SHOWN = "tests/render/test_use_reports.py"


def in_package(name: str, *faults: tuple[str, str, str, str, str]) -> tuple[Fault, ...]:
    """Faults of one package: module, what is wrong, the text, what stands there instead, the tests."""
    return tuple(
        Fault(what=what, file=f"reconciler/{name}/{module}.py", old=old, new=new, tests=(tests,))
        for module, what, old, new, tests in faults
    )


FAULTS: tuple[Fault, ...] = (
    *in_package(
        "usage",
        ("whatif", "the broker that suffers least speaks for a tenant",
         "        -one.severity,", "        one.severity,", TOLD),
        ("whatif", "a client without samples was never throttled",
         "before.throttled_ms if before and not unseen else None", "before.throttled_ms if before and not unseen else 0",
         f"{WHATIF}::test_an_empty_series_says_so"),
        ("whatif", "what could not be shown could be judged",
         "        left_blind=sum(not one.judged for one in left),", "        left_blind=0,", TOLD),
        ("question", "series recorded while clients were counted otherwise are believed",
         "        return set(buckets) - whole", "        return set()",
         f"{WHATIF}::test_series_recorded_while_clients_were_counted_otherwise_break_the_history"),
        ("question", "of several limits of today the loosest is told",
         "before_units=min((units", "before_units=max((units",
         f"{WHATIF}::test_of_several_buckets_that_become_one_the_lowest_limit_of_today_is_told"),
        ("verdict", "parts are compared with the one that is throttled least",
         "    longest = max(facts.before", "    longest = min(facts.before", VERDICT),
        ("verdict", "what is just tolerated is refused",
         "allowed is not None and daily > allowed", "allowed is not None and daily >= allowed", VERDICT),
        ("tiers", "a label of a document weakens the gate",
         "_stricter(found.tolerance, self.usual.tolerance)", "found.tolerance", POLICY),
        ("load", "a budget that is just used up is over",
         "if load_ppm(one, found) > MILLION", "if load_ppm(one, found) >= MILLION", LOAD),
        ("load", "the largest budget of a window is told",
         "budget_units=min(found", "budget_units=max(found", LOAD),
        ("load", "a total that is not recorded leaves nothing unattributed",
         "    if not known or not whole:\n        return None", "    if not known or not whole:\n        return 0", LOAD),
        ("profiles", "a type that the broker does not count is unused",
         "    if not measured:\n        return UseState.NO_DATA", "    if not measured:\n        return UseState.UNUSED",
         "tests/usage/test_profiles.py"),
        ("pseudonyms", "a user and a client id run together have one name",
         "f\"{kind}\\0{name}\"", "f\"{name}\"", "tests/usage/test_pseudonyms.py"),
    ),
    *in_package(
        "lake",
        ("lake", "a generation is overwritten by whoever comes second",
         "self.store.put(made.path, made.json(), create=True)", "self.store.put(made.path, made.json())",
         f"{LAKE}::test_of_many_that_create_the_same_generation_exactly_one_wins"),
        ("expiry", "files that a manifest names are removed",
         "one.path not in named and one.modified_ms", "one.modified_ms",
         f"{EXPIRY}::test_what_a_manifest_names_stays_and_the_newest_two_generations_with_it"),
        ("expiry", "files that were committed meanwhile are removed",
         "        named |= _named(\n", "        _ = _named(\n",
         f"{EXPIRY}::test_a_file_that_is_committed_while_expiry_is_at_work_stays"),
        ("evidence", "old evidence counts as long as it was published lately",
         "    if now_ms - latest.to_ms > max_age_ms:", "    if now_ms - latest.made_ms > max_age_ms:",
         "tests/lake/test_evidence.py::test_evidence_is_as_old_as_its_window_and_not_as_its_publication"),
        ("publish", "scrapes that failed count as covered",
         "rows.filter(rows.column(\"up\")).group_by", "rows.group_by",
         "tests/lake/test_publish.py::test_the_broker_that_answered_least_decides_the_coverage"),
        ("publish", "a broker that never answered does not lower the coverage",
         "                covered[broker] += 0\n", "                _ = broker\n",
         "tests/lake/test_publish.py::test_a_broker_that_never_answered_leaves_nothing_covered"),
        ("arrow", "a column that may not be null is taken with holes",
         "    if holes and not one.null:", "    if holes == rows.num_rows and not one.null:", "tests/lake/test_arrow.py"),
    ),
    *in_package(
        "telemetry",
        ("placing", "a broker that was down answered, and nobody used anything",
         "[ts] = value == 1", "[ts] = value >= 0", f"{ASSEMBLY}::test_a_scrape_that_failed_is_a_gap_and_no_zero"),
        ("grid", "a broker that counts nobody says that nobody used anything",
         "if row in named or spans[self._span[row]]]", "]", f"{ASSEMBLY}::test_where_the_broker_counts_nobody_silence_is_a_gap"),
        ("grid", "a delay that is not recorded is none",
         "pc.if_else(absent, 0, _delays(delay))", "pc.if_else(absent, 0, pc.fill_null(_delays(delay), 0))",
         f"{ASSEMBLY}::test_delays_that_are_not_a_number_mean_nobody_was_throttled_and_absent_ones_mean_nothing"),
        ("counters", "a counter that began again counts backwards",
         "pc.if_else(reset, value, pc.subtract(value, old))", "pc.subtract(value, old)",
         f"{ASSEMBLY}::test_counters_become_rates_and_a_reset_counts_from_zero"),
        ("limits", "a limit holds until the look that saw another",
         "states=(before.state, look.state)", "states=(before.state,)",
         f"{ASSEMBLY}::test_between_two_looks_that_differ_nothing_is_certain"),
        ("censors", "without any look at limits nobody was held back",
         "pc.or_(near, unseen)", "near",
         f"{ASSEMBLY}::test_without_any_look_a_delay_leaves_request_time_unknown_and_no_delay_does_not"),
        ("doubles", "of two values for one moment the smaller stays",
         '("value", "descending")', '("value", "ascending")',
         f"{DAYS}::test_of_two_values_for_one_moment_the_larger_stays_whatever_the_order"),
        ("matchers", "a matcher takes every cluster whose name begins alike",
         "self._pattern.fullmatch(found)", "self._pattern.match(found)", "tests/telemetry/test_settings.py"),
        ("dialects", "of two dialects that fit the first is taken",
         "            case [one]:", "            case [one, *_]:", "tests/telemetry/test_dialects.py"),
        ("fetching", "of series that are split by a label one half is never asked for",
         'operator="!~"', 'operator="=~"',
         "tests/telemetry/test_fetching.py::test_where_time_cannot_be_split_any_more_series_are_split_by_a_label"),
        ("keeping", "a run claims to have fetched the day after",
         "reached = min(reading.cursor_ms, begin + DAY_MS)", "reached = reading.cursor_ms",
         f"{DAYS}::test_the_cursor_never_claims_a_day_that_was_not_kept"),
        ("keeping", "the next run makes a day whole, whatever it fetched",
         "(*without(known, reading.whole), *reading.missing)", "reading.missing",
         f"{DAYS}::test_what_a_server_did_not_give_whole_makes_the_day_partial_until_it_does"),
        ("from_server", "what came late is never fetched",
         "min(reached, to_ms) - REFETCH_MS", "min(reached, to_ms)",
         f"{SERVER}::test_a_run_begins_where_the_last_one_ended_and_three_hours_before"),
        ("from_server", "a hole is jumped over",
         "follows=reached is None or from_ms <= reached", "follows=True",
         f"{SERVER}::test_a_run_that_leaves_a_hole_does_not_move_where_the_next_one_begins"),
        ("from_server", "a server that fails half-way leaves a whole day",
         "await work.keep(missing=((work.reached, span.to_ms),))", "await work.keep()",
         f"{SERVER}::test_the_day_of_a_failure_says_what_is_missing_until_it_came"),
    ),
    *in_package(
        "manifest",
        ("whatif_policy", "no new throttling at all means any",
         "        if daily is None\n", "        if not daily or not _ms(daily)\n", POLICY),
    ),
    *in_package(
        "render",
        ("use_sheets", "a figure that is at least that is shown as exact",
         "else sign + daily", "else daily", SHOWN),
        ("use_sheets", "a percentile that is not known is no limit",
         '"-" if units is None else units_text(kind, units)', "units_text(kind, units)", SHOWN),
        ("use_page", "a client's name is markup",
         "    return escape(escaped(text))", "    return escaped(text)", SHOWN),
        ("use_words", "a little throttling a day is none",
         "    return -(-length_ms * DAY_MS // covered_ms)", "    return length_ms * DAY_MS // covered_ms",
         "tests/render/test_use_words.py"),
    ),
    *in_package(
        "cli",
        ("whatif", "required evidence that is missing passes",
         "asking.require_evidence and not found.enough", "asking.require_evidence and not found.rows",
         "tests/cli/test_whatif.py::test_required_evidence_that_is_missing_is_5"),
        ("whatif", "what the policy refuses passes",
         "    if found.breaches:\n        return Exit.REFUSED\n", "",
         "tests/cli/test_whatif.py::test_who_will_be_throttled_is_said_where_evidence_is_configured"),
        ("whatif", "stale evidence counts",
         "isinstance(published, Nothing) or note.stale:", "isinstance(published, Nothing):",
         "tests/cli/test_whatif.py::test_stale_evidence_says_nothing"),
        ("simulating", "required evidence that holds nothing passes",
         "require_evidence and not found.enough", "require_evidence and not found.evidence",
         "tests/cli/test_spark_simulate.py::test_no_samples_are_no_impact_of_nothing_but_exit_5_where_evidence_is_required"),
    ),
)  # fmt: skip
