"""Faults planted around the core: use case, client, wire."""

from tests.mutants.fault import Fault

FAULTS: tuple[Fault, ...] = (
    Fault(
        what="intents are not written before sending",
        file="reconciler/reconcile/story.py",
        old="    await ports.inventory.write(plan.cluster_id, (*bookkeeping, *intents))",
        new="    await ports.inventory.write(plan.cluster_id, bookkeeping)",
        tests=("tests/reconcile/test_story.py",),
    ),
    Fault(
        what="guards are not asked before applying",
        file="reconciler/reconcile/story.py",
        old="    if shown.violations:\n",
        new="    if shown is None:\n",
        tests=("tests/reconcile/test_story.py",),
    ),
    Fault(
        what="a held entity is sent all the same",
        file="reconciler/reconcile/send.py",
        old="chunks([one for one in batch.alterations if one.entity not in held])",
        new="chunks(list(batch.alterations))",
        tests=("tests/reconcile/test_story.py",),
    ),
    Fault(
        what="visibility on one lagging broker is enough",
        file="reconciler/quota/report.py",
        old="        return not self.lagging and bool(self.visible)",
        new="        return bool(self.visible)",
        tests=("tests/quota/test_report.py",),
    ),
    Fault(
        what="the last broker is not asked",
        file="reconciler/client/visibility.py",
        old="        self.seen.update({node.id: _Seen() for node in nodes})",
        new="        nodes = list(nodes)[:-1] or list(nodes)\n        self.seen.update({node.id: _Seen() for node in nodes})",
        tests=("tests/client/test_visibility.py",),
    ),
    Fault(
        what="only the last change is looked for",
        file="reconciler/client/visibility.py",
        old="        for it in self.expected[:-1]:",
        new="        for it in self.expected[:0]:",
        tests=("tests/client/test_visibility.py",),
    ),
    Fault(
        what="validate-only writes",
        file="reconciler/client/altering.py",
        old="altering.join_entries(version, entries, validate_only=self._validate_only)",
        new="altering.join_entries(version, entries, validate_only=False)",
        tests=("tests/client/test_altering.py",),
    ),
    Fault(
        what="a chunk has one operation too many",
        file="reconciler/client/chunks.py",
        old="            operations + more > MAX_OPERATIONS",
        new="            operations + more > MAX_OPERATIONS + 1",
        tests=("tests/client/test_altering.py",),
    ),
    Fault(
        what="a chunk has one entity too many",
        file="reconciler/client/chunks.py",
        old="at - start >= MAX_ENTITIES",
        new="at - start > MAX_ENTITIES",
        tests=("tests/client/test_altering.py",),
    ),
    Fault(
        what="a secret prints itself",
        file="reconciler/client/secret.py",
        old='        return f"Secret({_HIDDEN})"',
        new='        return f"Secret({self._text})"',
        tests=("tests/client/test_secret.py",),
    ),
    Fault(
        what="an entity that occurs twice in an answer is taken",
        file="reconciler/wire/layout.py",
        old='        if key in self.entries:\n            raise DecodeError("the same entity occurs twice", offset=offset)\n',
        new="",
        tests=("tests/wire/test_layout.py",),
    ),
    Fault(
        what="a key that occurs twice in an answer is taken",
        file="reconciler/wire/layout.py",
        old="        if len(numbers) != len(values):",
        new="        if len(numbers) > len(values):",
        tests=("tests/wire/test_layout.py",),
    ),
    Fault(
        what="the null of an answer is read as the empty name",
        file="reconciler/wire/describe_client_quotas.py",
        old="        part = (reader.string(), reader.nullable_string())",
        new='        part = (reader.string(), reader.nullable_string() or "")',
        tests=("tests/wire/test_describe_client_quotas.py",),
    ),
    Fault(
        what="records of another cluster are taken",
        file="reconciler/reconcile/observe.py",
        old="    if expected and found != expected:",
        new="    if expected and not found:",
        tests=("tests/reconcile/test_story.py",),
    ),
)
