"""Faults planted in the core: order, comparison, policy, guards, resolution, values."""

from tests.mutants.fault import Fault

QUOTA = "reconciler/quota"
LAW = ("tests/quota/test_order_law.py",)
ORDER = ("tests/quota/planner/test_send_order.py",)
CASES = ("tests/quota/test_plan_cases.py",)
PLAN = ("tests/quota/planner/test_comparison.py",)
TABLE = ("tests/quota/planner/test_three_way_table.py",)
POLICY = ("tests/quota/test_policy.py",)
OWNERSHIP = ("tests/quota/test_ownership.py",)
SETTLEMENT = ("tests/quota/planner/test_intent_settlement.py",)
JUDGEMENT = ("tests/reconcile/test_one_judgement.py",)
REMOVALS = ("tests/reconcile/test_removal_law.py",)
GUARDS = ("tests/quota/planner/test_guards.py",)
REMOVAL_GUARD = ("tests/quota/planner/test_removal_guard.py",)
ENDS = ("tests/quota/planner/test_temporary_limits.py",)
SEQUENCES = ("tests/sequences/test_sequences.py::test_what_random_sequences_found_stays_corrected",)
DIGEST = ("tests/quota/results/test_effect_digest.py",)
BUDGETS = ("tests/quota/planner/test_budgets.py",)
IMPACT = ("tests/quota/planner/test_impact.py",)


def in_file(name: str, *faults: tuple[str, str, str, tuple[str, ...]]) -> tuple[Fault, ...]:
    """Faults of one module of the core."""
    return tuple(
        Fault(what=what, file=f"{QUOTA}/{name}.py", old=old, new=new, tests=tests)
        for what, old, new, tests in faults
    )


FAULTS: tuple[Fault, ...] = (
    *in_file(
        "planner/temporary_limits",
        (
            "a temporary limit in force is no part of the sum",
            "    return second.with_values(larger) if larger else second",
            "    return second",
            BUDGETS,
        ),
    ),
    *in_file(
        "planner/budgets",
        (
            "a default limit counts for one client only",
            "            max(number, budget.assumed_clients, 1) if DEFAULT in entity else 1,",
            "            max(budget.assumed_clients, 1),",
            BUDGETS,
        ),
        (
            "a default limit without a known client counts not at all",
            "            max(number, budget.assumed_clients, 1) if DEFAULT in entity else 1,",
            "            max(number, budget.assumed_clients) if DEFAULT in entity else 1,",
            BUDGETS,
        ),
        (
            "a client-id limit that a limit of all users overrides is promised",
            "        if is_of_client_id and any(",
            "        if not is_of_client_id and any(",
            BUDGETS,
        ),
        (
            "a plan that lowers an exceeded sum is refused",
            "(is_raised or self.after > self.before * ROUNDING)",
            "True",
            BUDGETS,
        ),
        (
            "a raise under a budget that recorded use exceeds is sent",
            "        is_raised = self.basis is BudgetMeasure.OBSERVED and bool(self.raised_by)",
            "        is_raised = False",
            BUDGETS,
        ),
        (
            "a promised sum refuses where recorded use was asked for",
            "        return self.basis is self.budget.basis",
            "        return True",
            BUDGETS,
        ),
        (
            "overcommitment is ignored",
            "        return self.amount * self.overcommit",
            "        return self.amount",
            BUDGETS,
        ),
        (
            "a budget of a namespace counts all namespaces",
            "        if (not budget.namespaces or namespace in budget.namespaces)",
            "        if True",
            BUDGETS,
        ),
        (
            "a client counts only after the plan that names it",
            "principals_with_quotas(state).union(logins) for state in states",
            "principals_with_quotas(live).union(logins) for state in states",
            BUDGETS,
        ),
        (
            "the small raises are refused before the large ones",
            "key=lambda change: -grown[change.entity]",
            "key=lambda change: grown[change.entity]",
            BUDGETS,
        ),
        (
            "the value that fits is too large by the share of other clients",
            "(use.after - most) / share.clients",
            "(use.after - most) / len(new)",
            BUDGETS,
        ),
    ),
    *in_file(
        "planner/send_order",
        (
            "removals are sent before sets",
            "    return value is None, -number if value is None else number, ends_override",
            "    return value is not None, -number if value is None else number, ends_override",
            LAW,
        ),
        (
            "sets go from the widest level to the closest",
            "    return value is None, -number if value is None else number, ends_override",
            "    return value is None, -number, ends_override",
            LAW,
        ),
        (
            "removals go from the closest level to the widest",
            "    return value is None, -number if value is None else number, ends_override",
            "    return value is None, number, ends_override",
            LAW,
        ),
        (
            "no change is held",
            "                if waits:\n",
            "                if len(waits) > 99:\n",
            LAW,
        ),
        (
            "a refused change does not hold others",
            "                waits = set(itertools.islice(undone, NAMED_OBSTACLES))\n",
            "                waits = set(itertools.islice(undone, 0))\n",
            LAW,
        ),
        (
            "removals do not wait until sets are visible",
            "                    waits.update(itertools.islice(not_visible, NAMED_OBSTACLES))\n",
            "                    waits.update(itertools.islice(not_visible, 0))\n",
            LAW,
        ),
        (
            "an entity of unknown outcome is written again",
            "                self._entities_unknown.add(subject)\n",
            "                self._entities_unknown.discard(subject)\n",
            ORDER,
        ),
        (
            "unsettled changes of an earlier batch are forgotten",
            "                    if (alteration.entity, operation[0]) not in self._settled:\n",
            "                    if (alteration.entity, operation[0]) in self._settled:\n",
            ORDER,
        ),
        (
            "the end of an override waits for refused changes",
            "            is_waited_for = obstacle.holds_ends or not batch.ends_overrides\n",
            "            is_waited_for = True\n",
            LAW,
        ),
        (
            "the end of an override that failed holds no other end",
            "        holds_ends = (subject, key) in self._ends\n",
            "        holds_ends = False\n",
            ORDER,
        ),
        (
            "the end of an override is held with the other changes of its entity",
            "        place = change.entity, change.after is None, change.cause is Cause.ENDED\n",
            "        place = change.entity, change.after is None, False\n",
            ORDER,
        ),
        (
            "the end of an override does not wait for a write of unknown outcome",
            "position=BEFORE_ALL, holds_ends=True)",
            "position=BEFORE_ALL)",
            ORDER,
        ),
        (
            "a withheld set at a wider level holds sets at closer levels",
            "            is_earlier = obstacle.position < batch.position\n",
            "            is_earlier = obstacle.position[0] <= batch.position[0]\n",
            LAW,
        ),
        (
            "an operation waits for one that a closer limit hides from its clients",
            "            level(closer) < wider\n",
            "            level(closer) < 0\n",
            LAW,
        ),
        (
            "a limit that is removed now hides what its clients fall back to",
            "            and not (batch.removes and closer == subject)\n",
            "",
            LAW,
        ),
        (
            "a limit that the end of an override removes hides what a guard refuses",
            "pair not in self._removed and pair not in self._passing",
            "pair not in self._removed",
            LAW,
        ),
        (
            "the default user does not wait for changes of named users",
            '    (False, True): "second",\n',
            '    (False, True): "first",\n',
            ORDER,
        ),
        (
            "a chunk contains one operation too many",
            "> MAX_OPERATIONS:",
            "> MAX_OPERATIONS + 1:",
            ORDER,
        ),
    ),
    *in_file(
        "results/report",
        (
            "a document that a guard refuses ages the last success",
            "            bool(refused or self.withheld)\n",
            "            bool(refused)\n",
            ("tests/quota/results/test_report.py",),
        ),
        (
            "a missing permission counts as a success",
            "isinstance(p.result, Rejected) and p.result.lacks_permission for p in refused",
            "False for p in refused",
            ("tests/quota/results/test_report.py",),
        ),
    ),
    *in_file(
        "planner/claims",
        (
            "limits that a suspended document declares count as unmanaged",
            "            halted=desired.halted | frozenset(halted),\n",
            "            halted=desired.halted,\n",
            ("tests/quota/planner/test_claims.py",),
        ),
    ),
    *in_file(
        "planner/temporary_limits",
        (
            "a change under an override is not judged",
            "    if first.is_news(view.declared, view.applied) and below.cause is not None:\n",
            "    if first.is_news(None, None) and below.cause is not None:\n",
            CASES,
        ),
        (
            "an override is corrected as if it were written for the first time",
            "    is_drift = override.is_written and not",
            "    is_drift = override is None and not",
            CASES,
        ),
        (
            "the end of an override overwrites another writer",
            "    after = override.before if override.has_written(view.live) else view.live\n",
            "    after = override.before\n",
            CASES,
        ),
        (
            "the end of an override leaves the value of another writer in place of the declared one",
            "    if view.declared is not None:\n        after = view.declared\n",
            "    if view.declared is not None and override.has_written(view.live):\n        after = view.declared\n",
            CASES,
        ),
        (
            "a document takes the place of the override of a person",
            "        if not first.document:\n",
            "        if not first.document and self.declared is None:\n",
            CASES,
        ),
        (
            "a document with an end forgets the value from before when it changes",
            "    if recorded is not None and recorded.document == override.document and recorded.is_written:",
            "    if recorded is not None and recorded == override:",
            CASES,
        ),
        (
            "what follows a temporary limit is recorded although a guard refuses it, where it is live already",
            "        if change in refused and change.pair in ending - written:\n",
            "        if change in refused and change.pair not in ending | written:\n",
            CASES,
        ),
        (
            "another end of a document is in no review",
            "    is_news = has_other_end or not layer.has_begun\n",
            "    is_news = not layer.has_begun\n",
            CASES,
        ),
        (
            "a document below the override of a person is not judged",
            "    is_news = has_other_end or not layer.has_begun\n",
            "    is_news = has_other_end\n",
            CASES,
        ),
        (
            "a document that was never written ends as if it had been",
            "        return is_of_document and not self.has_begun and not self.first.is_written\n",
            "        return False\n",
            CASES,
        ),
        (
            "a rollback ignores the document with an end",
            "        return view.declared if self.declared is None else _value(self.declared, view)\n",
            "        return view.declared\n",
            CASES,
        ),
        (
            "a refused document with an end is recorded as begun",
            "        if is_closing or _begins(item, successors):\n",
            "        if is_closing:\n",
            ENDS,
        ),
        (
            "a refused end of an override keeps its value",
            "        if after != live:\n",
            "        if after == live:\n",
            ENDS,
        ),
        (
            "a refused declaration drops the override that is in force",
            "if is_end else change in refused):",
            "if is_end else change.pair in {pair for pair, _ in successors}):",
            ENDS,
        ),
        (
            "what is declared under an override is compared with the override's value",
            "        (override.entity, override.key, override.before) for override in",
            "        (override.entity, override.key, override.value) for override in",
            ENDS,
        ),
        (
            "a refused declaration under an override is refused again for ever",
            "        pending=tuple(change for change in plan.pending if change not in refused),\n",
            "",
            ENDS,
        ),
        (
            "a refused end of an override that replaced nothing keeps its record",
            "        elif override.until <= now and change.pair not in owned.intents:\n",
            "        elif override.until <= now and change.pair in owned.intents:\n",
            ENDS,
        ),
        (
            "a rollback whose changed document is refused ends",
            "        elif override.until <= now and change.pair not in owned.intents:\n",
            "        elif change.pair not in owned.intents:\n",
            ENDS,
        ),
    ),
    *in_file(
        "planner/three_way_table",
        (
            "an orphan is removed when a later document has the name of its own",
            "    if owner.document in documents and not is_orphaned:",
            "    if owner.document in documents:",
            SEQUENCES,
        ),
        (
            "files without a project remove what they leave out",
            "    if not is_whole and not is_orphaned:",
            "    if is_orphaned is None:",
            POLICY,
        ),
        (
            "a takeover is reported as an adoption",
            "Cause.ADOPT if same_value(key, desired, live) else Cause.TAKEOVER",
            "Cause.ADOPT",
            TABLE,
        ),
        (
            "a change over drift is reported as a plain change",
            "Cause.SPEC if same_value(key, live, applied) else Cause.SPEC_OVER_DRIFT",
            "Cause.SPEC",
            TABLE,
        ),
        (
            "a pair that another writer changed is pruned",
            "Cause.PRUNE if same_value(key, live, applied) else Cause.CHANGED_BY_ANOTHER",
            "Cause.PRUNE",
            POLICY,
        ),
    ),
    *in_file(
        "planner/intent_settlement",
        (
            "what lands under an override replaces the record below",
            "        if pair in owned.overrides:\n",
            "        if pair is None:\n",
            CASES,
        ),
        (
            "an executed write is not recorded",
            "    if same_value(key, intent.value, value):\n        if",
            "    if False:\n        if",
            SETTLEMENT,
        ),
        (
            "an executed removal is not recorded",
            "        if intent.value is None:\n",
            "        if intent.value == 0.0:\n",
            SETTLEMENT,
        ),
        (
            "an intent never ends",
            "    elif not intent.may_still_land(now):\n",
            "    elif now < 0:\n",
            REMOVALS,
        ),
        (
            "an intent of a clock that is ahead does not end",
            "    elif intent.at > now:\n",
            "    elif now < 0:\n",
            SETTLEMENT,
        ),
    ),
    *in_file(
        "policy",
        (
            "drift is written under Warn",
            "    DriftMode.WARN: (_P, _P, _P, _P),",
            "    DriftMode.WARN: (_P, _P, _W, _W),",
            POLICY,
        ),
        (
            "CreateOnly takes over",
            "    Cause.TAKEOVER: (_P, _P, _W, _W),",
            "    Cause.TAKEOVER: (_P, _W, _W, _W),",
            POLICY,
        ),
        (
            "Observe records",
            "        return self.in_force is not Policy.OBSERVE",
            "        return True",
            PLAN,
        ),
        (
            "Sync needs no confirmation",
            "        if self.policy is Policy.SYNC and not self.sync_confirmed:",
            "        if self.policy is Policy.SYNC and self.policy is None:",
            POLICY,
        ),
        (
            "a partial listing removes",
            "            case Cause.PRUNE | Cause.GONE if not self.complete or",
            "            case Cause.PRUNE | Cause.GONE if self.complete is None or",
            POLICY,
        ),
        (
            "CreateOnly changes a limit by an override",
            "Cause.CREATE if live is None else Cause.OVERRIDE)",
            "Cause.CREATE)",
            CASES,
        ),
        (
            "Retain is ignored",
            "    DeclarationEnd.EXPLICIT_RETAIN: (_O, _O, _O, _O),",
            "    DeclarationEnd.EXPLICIT_RETAIN: (_O, _O, _O, _W),",
            POLICY,
        ),
        (
            "unset means Delete under Upsert too",
            "    DeclarationEnd.UNSET: (_O, _O, _O, _W),",
            "    DeclarationEnd.UNSET: (_O, _O, _W, _W),",
            POLICY,
        ),
        (
            "an ignore rule never ends",
            "            (self.until is None or now < self.until)\n",
            "            True\n",
            POLICY,
        ),
        (
            "changed pairs are removed without force",
            "            case Cause.CHANGED_BY_ANOTHER:\n                return self.permits(Cause.PRUNE, end) if self.force else Action.REPORT",
            "            case Cause.CHANGED_BY_ANOTHER:\n                return self.permits(Cause.PRUNE, end)",
            POLICY,
        ),
    ),
    *in_file(
        "planner/comparison",
        (
            "a suspended document decides what follows an override",
            "        view = view.without_claim() if self._is_frozen(view) else view\n",
            "",
            CASES,
        ),
        (
            "files that do not include a document end its rollback",
            "is_decided=is_read and not is_kept",
            "is_decided=not is_kept",
            CASES,
        ),
        (
            "a suspended document with an end ends at once",
            "            document in self.desired.frozen or view.pair in self.contested\n",
            "            view is None\n",
            CASES,
        ),
        (
            "the declared value that is live at the end is not recorded",
            "difference.is_over and view.declared is not None:",
            "difference.is_over and view is None:",
            CASES,
        ),
        (
            "a document stays in force after its end",
            "        if declared is not None and declared.has_ended(max(self.now, self.owned.latest_end)):\n",
            "        if view is None:\n",
            CASES,
        ),
        (
            "a clock that is behind begins a document again whose end was carried out",
            "declared.has_ended(max(self.now, self.owned.latest_end)):",
            "declared.has_ended(self.now):",
            CASES,
        ),
        (
            "a document with an end begins where a suspended one owns the limit",
            "        if owner in self.desired.frozen and declared is not None and declared.document != begun:\n",
            "        if view is None:\n",
            CASES,
        ),
        (
            "frozen pairs are written",
            "        if self._is_frozen(view):\n            yield",
            "        if view is None:\n            yield",
            POLICY,
        ),
        (
            "pairs of suspended documents have no owner",
            "or (undeclared and view.pair in self.desired.halted)",
            "or (undeclared and view is None)",
            POLICY,
        ),
        (
            "pairs that two documents claim are pruned",
            "        elif cause is not None and view.pair in self.contested:\n",
            "        elif view is None:\n",
            CASES,
        ),
        (
            "a plan is not sorted",
            "        for subject in sorted(self._find_out_of_sync(), key=sort_key):",
            "        for subject in list(self._find_out_of_sync()):",
            PLAN,
        ),
        (
            "entities of other writers only are ignored",
            "            if len(entities) > in_sync + sum(subject in entities for subject in known_entities):",
            "            if len(entities) > in_sync + sum(subject in entities for subject in known_entities) + 1:",
            PLAN,
        ),
        (
            "a changed owner of an entity in sync is ignored",
            "                and owner.document == claim.document\n",
            "",
            CASES,
        ),
    ),
    *in_file(
        "planner/permitted_plan",
        (
            "an override that landed unnoticed is taken for drift later",
            "                self.record(OverrideWritten(entity=entity, key=key, value=after))\n",
            "                pass\n",
            CASES,
        ),
        (
            "an override ends while its write may still land",
            "        elif not view.unsettled:  # Else its write",
            "        elif view is not None:  # Else its write",
            CASES,
        ),
        (
            "a temporary limit is written again and again, and forgets the value from before",
            "(action is Action.WRITE or difference.of_override):",
            "difference.of_override:",
            CASES,
        ),
        (
            "an owned limit outside the scope is not released",
            "        end = DeclarationEnd.EXPLICIT_RETAIN  # What",
            "        end = end  # What",
            SEQUENCES,
        ),
        (
            "pairs outside the scope are written",
            "    if is_written and not rules.in_scope(difference.view.entity):",
            "    if is_written is None:",
            JUDGEMENT,
        ),
        (
            "the scope delays the end of an override",
            " and difference.cause is not Cause.ENDED\n",
            "\n",
            CASES,
        ),
        (
            "ignored differences are written",
            "decision.action not in {Action.WRITE, Action.REPORT}",
            "decision.action not in {Action.REPORT}",
            CASES,
        ),
        (
            "records change while a write may still be executed",
            "    if decision.action is Action.RECORD and difference.view.unsettled:",
            "    if decision.action is Action.RECORD and difference is None:",
            CASES,
        ),
    ),
    *in_file(
        "overrides",
        (
            "an override ignores its end",
            "        return now < self.until and (",
            "        return (",
            CASES,
        ),
        (
            "a rollback ignores its document",
            "            not self.ends_with_document or same_value(self.key, declared, self.declared)\n",
            "            self.ends_with_document or same_value(self.key, declared, declared)\n",
            CASES,
        ),
        (
            "a value that an override found is taken for another writer's",
            "for value in (self.value, self.applied))",
            "for value in (self.value,))",
            CASES,
        ),
        (
            "what a rollback took back is judged again",
            "        if self.ends_with_document and same_value(self.key, declared, self.declared):\n            return False\n",
            "",
            CASES,
        ),
    ),
    *in_file(
        "ownership",
        (
            "a value above a record leaves its write open",
            "                pair = entity, key\n                _ = self._intents.pop(pair, None)\n                _ = self._drift.pop(pair, None)\n                if pair in",
            "                pair = entity, key\n                _ = self._drift.pop(pair, None)\n                if pair in",
            OWNERSHIP,
        ),
        (
            "a write is given up one second too early",
            "        return now < self.at + SETTLING_SECONDS",
            "        return now < self.at + SETTLING_SECONDS - 1",
            CASES,
        ),
        (
            "drift loses the time of its first observation",
            "                    _ = self._drift.setdefault((entity, key), at)",
            "                    self._drift[entity, key] = at",
            ("tests/quota/test_ownership.py",),
        ),
    ),
    *in_file(
        "planner/desired_state",
        (
            "one of two claims wins without a conflict",
            "        columns.append(declarations[0].limits[column] if len(declarations) == 1 else None)",
            "        columns.append(declarations[0].limits[column] if declarations else None)",
            ("tests/quota/planner/test_desired_state.py",),
        ),
        (
            "a suspended document declares claims",
            "    frozen_documents = {candidate.document for candidate in all_declarations if candidate.suspended}",
            "    frozen_documents = {candidate.document for candidate in all_declarations if candidate.document is None}",
            ("tests/quota/planner/test_desired_state.py",),
        ),
        (
            "the order of documents matters",
            "        claims[subject] = tuple(sorted(claims[subject], key=_place))",
            "        claims[subject] = tuple(claims[subject])",
            ("tests/quota/planner/test_desired_state.py",),
        ),
    ),
    *in_file(
        "planner/removal_guard",
        (
            "removals of the last hour do not count",
            "too_many_removals(requested + recent, owned + recent, guards)",
            "too_many_removals(requested, owned + recent, guards)",
            REMOVAL_GUARD,
        ),
        (
            "a share is computed from the remaining pairs",
            "too_many_removals(requested + recent, owned + recent, guards)",
            "too_many_removals(requested + recent, owned, guards)",
            REMOVAL_GUARD,
        ),
        (
            "one tenant stops the removals of all",
            "for tenant, number in requested.items() if tenant not in refused)",
            "for tenant, number in requested.items())",
            REMOVAL_GUARD,
        ),
        (
            "an approval never ends",
            " if now < approval.until}",
            "}",
            REMOVAL_GUARD,
        ),
    ),
    *in_file(
        "planner/guards",
        (
            "one removal too many is permitted",
            "    if count > guards.max_removals:",
            "    if count > guards.max_removals + 1:",
            GUARDS,
        ),
        (
            "the share is checked for the smallest inventory",
            "    if owned_pairs >= MIN_SHARE_FROM and",
            "    if owned_pairs >= 1 and",
            GUARDS,
        ),
        (
            "a share at its bound is refused",
            "100 * count > guards.max_removed_percent * owned_pairs",
            "100 * count >= guards.max_removed_percent * owned_pairs",
            GUARDS,
        ),
        (
            "defaults are not protected",
            "        if DEFAULT in change.entity\n",
            '        if "<default>" in change.entity\n',
            GUARDS,
        ),
        (
            "a maximum disables the guard against wrong units",
            "        if bound.minimum is None and value < rule.slip",
            "        if bound.minimum is bound.maximum and value < rule.slip",
            GUARDS,
        ),
        (
            "protected entities may be removed",
            "            if protection.entities.matches(change.entity):\n                reason",
            "            if not change.removes and protection.entities.matches(change.entity):\n                reason",
            GUARDS,
        ),
        (
            "the last protection gives the reason",
            "                violations.append(_violation_of(change, Guard.PROTECTED_ENTITIES, message))\n                break",
            "                violations[:] = [*violations[:-1], _violation_of(change, Guard.PROTECTED_ENTITIES, message)]",
            GUARDS,
        ),
        (
            "an empty set of documents passes",
            "    if guards.allow_empty or",
            "    if True or",
            GUARDS,
        ),
        (
            "an approval is not required",
            " and not is_approved(\n            change, guards.bounds, guards.granted\n        ):",
            ":",
            GUARDS,
        ),
    ),
    *in_file(
        "planner/value_ranges",
        (
            "a range that contains a value and its wrong unit approves both",
            "            and self.maximum < UNIT_STEP * self.minimum\n",
            "",
            ("tests/quota/planner/test_value_ranges.py", *GUARDS),
        ),
        (
            "a bound for everything approves",
            "            self.entities != EVERYTHING\n            and self.minimum",
            "            self.minimum",
            ("tests/quota/planner/test_value_ranges.py",),
        ),
        (
            "a tenant approves declarations of another namespace",
            "            and (not self.namespaces or _namespace(change) in self.namespaces)\n",
            "",
            ("tests/quota/planner/test_value_ranges.py",),
        ),
    ),
    *in_file(
        "planner/effects",
        (
            "effects after a plan are those of its removals alone",
            "apply_to(live, self.changes)",
            "apply_to(live, [change for change in self.changes if change.removes])",
            ("tests/quota/planner/test_impact.py", "tests/quota/planner/test_guards.py"),
        ),
        (
            "a limit that another one replaces decides for its clients",
            "(decisive or by_client)[0]",
            "by_client[0]",
            ("tests/quota/planner/test_effects.py",),
        ),
        (
            "only growing limits are guarded",
            "max(factor, 1 / factor)",
            "factor",
            GUARDS,
        ),
        (
            "clients that are limited again are counted as newly unlimited",
            "if after is None and before is not None:",
            "if before is not None:",
            GUARDS,
        ),
    ),
    *in_file(
        "planner/impact",
        (
            "a split bucket is reported as joined",
            "        if was < will:\n            return BucketSharing.SPLIT",
            "        if will < was:\n            return BucketSharing.SPLIT",
            IMPACT,
        ),
        (
            "a limit of the same bucket is reported as a new bucket",
            "return BucketSharing.ENDED if self.before.bucket else BucketSharing.BEGUN",
            "return BucketSharing.BEGUN if self.before.bucket else BucketSharing.ENDED",
            IMPACT,
        ),
        (
            "a limit of an empty name decides for its client",
            'if "" in own or principal.ip',
            "if None in own or principal.ip",
            IMPACT,
        ),
        (
            "a client with another limit is counted once for each key",
            "        count += is_affected",
            "        count += len(replaced) + is_affected",
            IMPACT,
        ),
    ),
    *in_file(
        "precedence",
        (
            "a client-id alone has precedence over users",
            "product((*users, ABSENT), ",
            "product((ABSENT, *users), ",
            ("tests/quota/test_precedence.py",),
        ),
        (
            "an empty client-id matches defaults",
            "(client_id, DEFAULT) if client_id else ()",
            "(client_id, DEFAULT) if client_id else (DEFAULT,)",
            ("tests/quota/test_precedence.py",),
        ),
        (
            "the default user shares one bucket",
            '    user = "" if source[0] is ABSENT else principal.user or ""',
            '    user = "" if not source[0] else principal.user or ""',
            ("tests/quota/test_precedence.py",),
        ),
    ),
    *in_file(
        "entity",
        (
            "the default is the empty name",
            'def kinds(subject: Entity) -> tuple[str, str, str]:\n    """Return ``named``, ``default`` or ``absent`` for each slot."""\n    user, client_id, ip = subject\n',
            'def kinds(subject: Entity) -> tuple[str, str, str]:\n    """``entity_parts``, ``default`` or ``absent`` for each slot."""\n    user, client_id, ip = (None if one == "" else one for one in subject)\n',
            ("tests/quota/test_entity.py",),
        ),
        (
            "the default is written as the text <default>",
            '        return (("user", user),)',
            '        return (("user", "<default>" if user is None else user),)',
            ("tests/quota/test_entity.py",),
        ),
    ),
    *in_file(
        "filters",
        (
            "any does not mean the default",
            "component.match is ANY or",
            "component.match is ANY and present[component.entity_type] is not None or",
            ("tests/quota/test_filters.py",),
        ),
        (
            "strict is ignored",
            "        if self.strict and (",
            "        if not self.components and self.strict and (",
            ("tests/quota/test_filters.py",),
        ),
    ),
    *in_file(
        "keys",
        (
            "almost whole numbers are different numbers",
            "    return whole_if_near(value) if RULES[key].is_integer else value + 0.0\n",
            "    return value + 0.0\n",
            ("tests/quota/test_keys.py",),
        ),
        (
            "percentages are compared like whole numbers",
            "    return whole_if_near(value) if RULES[key].is_integer else value + 0.0",
            "    return whole_if_near(value)",
            ("tests/quota/test_keys.py",),
        ),
    ),
    *in_file(
        "planner/plan",
        (
            "the end of an override makes a reviewed plan stale",
            "(change for change in self.changes if change.is_reviewed)",
            "(change for change in self.changes)",
            ("tests/reconcile/test_approval.py",),
        ),
        (
            "what is declared under an override is in no review",
            "if change.is_reviewed), *self.pending)",
            "if change.is_reviewed),)",
            ("tests/reconcile/test_approval.py",),
        ),
        (
            "the end of an override replaces the record below it",
            "        return self.is_temporary and (self.cause is not Cause.ENDED or not is_below)\n",
            "        return self.is_temporary and self.cause is not Cause.ENDED\n",
            CASES,
        ),
    ),
    *in_file(
        "planner/effects",
        (
            "every removal falls back to the limits of named users",
            "kinds.add((key, type(subject[0])))",
            "kinds.add((key, str))",
            ("tests/quota/planner/test_fallbacks.py",),
        ),
    ),
    *in_file(
        "results/effect_digest",
        (
            "the digest ignores the cluster",
            "_Head(cluster_id, len(operations))",
            '_Head("", len(operations))',
            DIGEST,
        ),
        (
            "the digest depends on the order",
            "        sorted(lines(list(map(facts_of, rows))).splitlines())",
            "        lines(list(map(facts_of, rows))).splitlines()",
            DIGEST,
        ),
        (
            "the digest ignores the limits that clients of removals fall back to",
            "(head, *operations, *fallbacks)",
            "(head, *operations)",
            ("tests/reconcile/test_approval.py",),
        ),
        (
            "the digest ignores the document",
            "row.cause, document_of(row), until",
            'row.cause, "", until',
            DIGEST,
        ),
    ),
    *in_file(
        "state",
        (
            "an entity without limits stays",
            "            if changed == NO_LIMITS and subject not in self.foreign_values:",
            "            if changed is None:",
            ("tests/quota/test_state.py",),
        ),
    ),
    *in_file(
        "grants",
        (
            "the deletion of a document without a grant removes its limits",
            "    return grant is not None and Permission.DELETE in grant.allow",
            "    return grant is None or Permission.DELETE in grant.allow",
            ("tests/kube/test_forged_status.py",),
        ),
    ),
    *in_file(
        "grants",
        (
            "a grant applies to every namespace",
            "        and namespace in tenant.namespaces\n",
            "        and tenant.namespaces\n",
            ("tests/quota/test_grants.py",),
        ),
        (
            "Delete needs no grant",
            "    if Permission.DELETE not in tenant.allow:",
            "    if Permission.DELETE is None:",
            ("tests/quota/test_grants.py",),
        ),
    ),
)
