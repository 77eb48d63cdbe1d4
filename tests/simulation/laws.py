"""Invariants of a simulation, checked on the brokers' log, the files and the documents only.

They do not use the planner: which entities apply to a client comes from an independent model of Kafka's rules.
"""

import json
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from reconciler.inventory.format import decode
from reconciler.quota.entity import ABSENT, Entity
from reconciler.quota.keys import COLUMNS, Key
from reconciler.quota.ownership import SETTLING_SECONDS, OwnershipRecords, Pair
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.removal_guard import COUNTED_SECONDS
from reconciler.quota.policy import DeletionPolicy, DriftMode, Policy, Rules
from reconciler.sandbox.broker_rules.image import Image, Names
from tests.policies import CHANGING, CREATING, REMOVING, SWEEPING
from tests.quota.log_model import seat
from tests.simulation.brokers import CLUSTER_ID, Commit
from tests.simulation.pair_history import PairHistory
from tests.simulation.plan_model import whole

USERS, CLIENT_IDS, HOSTS = (
    ("alice", "bob", "carol", "stranger"),
    ("app", "stranger", ""),
    ("10.0.0.1", "192.0.2.9"),
)
CLIENTS: Mapping[str, tuple[Entity, ...]] = {
    **{f"{user}/{client}": seat(user, client) for user in USERS for client in CLIENT_IDS},
    **{host: (Entity((ABSENT, ABSENT, host)), Entity((ABSENT, ABSENT, None))) for host in HOSTS},
}
"""Client -> the entities that can apply to it, highest precedence first."""

MATCHED: Mapping[Entity, tuple[str, ...]] = {
    entity: tuple(client for client, entities in CLIENTS.items() if entity in entities)
    for entity in {entity for entities in CLIENTS.values() for entity in entities}
}

LOOPS = ("watch", "operator")
"""Prefixes of the names of processes with a loop."""

LATE_SECONDS = SETTLING_SECONDS + 10.0
"""Time for which a write of an ended run may still be committed."""

STALE_SECONDS = 30.0
"""Maximum age of the state in a response of a lagging broker."""

ANNOUNCED_SECONDS = 600.0
"""Maximum time from the record of an intent until its write is committed."""

REMOVAL_SECONDS = COUNTED_SECONDS - 200.0
"""Time in which a loop makes no more removals than allowed: it counts them up to a minute before they are committed."""

Place = tuple[str, Key]
"""A client and a key."""


class LawBroken(Exception):
    """A law is violated; the simulation ends."""


@dataclass(slots=True, kw_only=True)
class Run:
    """A reconciliation of the product, as recorded by its actor.

    Attributes:
        process: Name of its process.
        started: Start in seconds since the epoch.
        documents: The documents at the start.
        overrides: Quota keys whose override it begins or ends.
        is_complete: Whether it read every document.
        is_forced: Whether it may remove values that another writer changed.
        ended: End, successful or not; ``None`` = running.
        limits: Client and key -> limits before and after the intended writes.
        disturbed: Clients and keys whose limit another writer changed in the meantime.
        removals: Quota keys that it intends to remove.
    """

    process: str
    started: float
    documents: Mapping[str, Declaration]
    overrides: frozenset[Pair] = frozenset()
    is_complete: bool = True
    is_forced: bool = False
    ended: float | None = None
    limits: dict[Place, set[float | None]] = field(default_factory=lambda: defaultdict(set))
    disturbed: set[Place] = field(default_factory=set)
    removals: set[Pair] = field(default_factory=set)

    def values(self, pair: Pair) -> set[float | None]:
        """Return the values that documents declare for the quota key; ``{None}`` = none does, or suspended ones alone."""
        column = COLUMNS.index(pair[1])
        return {
            document.limits[column]
            for document in self.documents.values()
            if document.entity == pair[0]
            and document.limits[column] is not None
            and not document.suspended
        } or {None}

    def declared(self, pair: Pair) -> bool:
        """Whether a document declares the quota key."""
        return None not in self.values(pair)


def recorded_value(owned: OwnershipRecords, pair: Pair) -> float | None:
    """Return the value that records have for the quota key."""
    record = owned.records.get(pair[0])
    return None if record is None else record.applied[COLUMNS.index(pair[1])]


def _is_suspended(run: Run, document: str) -> bool:
    return document in run.documents and run.documents[document].suspended


def entity_of(names: Names) -> Entity:
    """Convert an entity of the log to the product's form."""
    parts = dict(names)
    return Entity(tuple(parts.get(kind, ABSENT) for kind in ("user", "client-id", "ip")))


def names_of(entity: Entity) -> Names:
    """Convert an entity to the log's form."""
    return tuple(
        sorted(
            (kind, name)
            for kind, name in zip(("user", "client-id", "ip"), entity, strict=True)
            if name is not ABSENT
        )
    )


NAMES: Mapping[Entity, Names] = {entity: names_of(entity) for entity in MATCHED}
CLIENT_NAMES: Mapping[str, tuple[Names, ...]] = {
    client: tuple(NAMES[entity] for entity in entities) for client, entities in CLIENTS.items()
}
"""Client -> the names in the log of the entities that can apply to it, highest precedence first."""


def limit(image: Image, client: str, key: Key) -> float | None:
    """Return the limit that a broker with this image enforces."""
    values_of = image.values.get
    for names in CLIENT_NAMES[client]:
        values = values_of(names)
        if values is not None and (value := values.get(key)) is not None:
            return whole(key, value)
    return None


class Laws:
    """The laws of a simulation and the history that they need.

    Args:
        rules: The product's rules.
        image: The brokers' quotas at the start.
        max_removals: Maximum number of removals of a loop within an hour.
        writers: Prefixes of the names of the processes whose writes are judged; () = all but the foreign writer.
    """

    def __init__(
        self,
        rules: Rules,
        image: Image,
        *,
        max_removals: int = 10_000,
        writers: tuple[str, ...] = (),
    ) -> None:
        self.rules = rules
        self._writers = writers
        self.max_removals = max_removals
        self.removals: deque[tuple[float, str, Pair]] = deque()
        self.image = image
        self.runs: list[Run] = []
        self.timeline: dict[Pair, list[tuple[float, float | None, str]]] = defaultdict(list)
        self.ours: dict[Pair, set[float]] = defaultdict(set)
        self.recorded_values: dict[Pair, set[float]] = defaultdict(set)
        self.removed_at: dict[Pair, float] = {}
        self.stored_intents: dict[Pair, dict[float | None, float]] = defaultdict(dict)
        self.intent_runs: dict[Pair, Run] = {}
        self.open_intents: dict[Pair, dict[float | None, float]] = defaultdict(dict)
        self.histories: defaultdict[Pair, PairHistory] = _Histories(image)
        self.records = OwnershipRecords(cluster_id=CLUSTER_ID)
        self.retained: dict[str, DeletionPolicy | None] = {}
        self.own_commits = 0
        self.record_writes = 0
        self.foreign_pairs: set[Pair] = set()
        self.overridden: set[Pair] = set()

    def is_own(self, writer: str) -> bool:
        """Whether the writes of a process are judged; all others are those of another writer."""
        return writer.startswith(self._writers) if self._writers else writer != "foreign"

    # -- events --------------------------------------------------------------------------------------

    def began(self, run: Run) -> None:
        """Record the start of a run."""
        horizon = run.started - 600
        self.runs = [old for old in self.runs if old.ended is None or old.ended > horizon]
        self.runs.append(run)
        self.overridden |= run.overrides
        self._adopt(run.documents.values())

    def completed(self, run: Run) -> None:
        """Record that a run described the cluster and recorded it without an error."""
        for pair, at in list(self.removed_at.items()):
            if run.started > at + STALE_SECONDS:
                self.ours.pop(pair, None)
                del self.removed_at[pair]
        for intents in self.open_intents.values():
            for value, at in list(intents.items()):
                if run.started > at + LATE_SECONDS:
                    del intents[value]

    def committed(self, commit: Commit) -> None:
        """Check and record a batch of the metadata log."""
        self.image = commit.after
        own = self.is_own(commit.writer)
        changes = [
            ((entity_of(record.names), key), whole(key, record.value))
            for record in commit.records
            for key in (Key(record.key),)
        ]
        for pair, value in changes:
            if own:
                self._announced(commit, pair, value)
                self._lawful_write(commit, pair, value)
            else:
                self._disturb(commit, pair)
                if value is not None and value in self.open_intents[pair]:
                    self.ours[pair].add(value)
        if own:
            self.own_commits += 1
            self._lawful_order(commit)
        for pair, value in changes:
            self.timeline[pair].append((commit.at, value, commit.writer))
            self.histories[pair].committed(commit.at, commit.writer, value, is_announced=own)
            if not own:
                continue
            if value is None:
                self.removed_at[pair] = commit.at
            else:
                # Until the records are updated, their value still counts.
                owned = self.records.records.get(pair[0])
                recorded = owned.applied[COLUMNS.index(pair[1])] if owned is not None else None
                self.ours[pair] = self.ours[pair] & {whole(pair[1], recorded)} | {value}
                self.removed_at.pop(pair, None)
        entities = {pair[0] for pair, _ in changes}
        self._adopt(
            document
            for run in self.runs
            if run.ended is None or run is self.runs[-1]
            for document in run.documents.values()
            if document.entity in entities
        )

    def audited(self, at: float, process: str, content: bytes) -> None:
        """Check and record lines that were appended to the audit log."""
        intents: list[tuple[Pair, float | None]] = []
        ends: set[Pair] = set()
        for line in content.split(b"\n"):
            if not line:
                continue
            entry = json.loads(line)
            pair = _pair_of(entry)
            entry["after"] = whole(pair[1], entry["after"])
            if entry["outcome"] == "INTENDED":
                intents.append((pair, entry["after"]))
                if entry.get("cause") == "Ended":
                    ends.add(pair)
                self.open_intents[pair][entry["after"]] = at
                self._explained(pair, self.histories[pair].intended(at, process, entry["after"]))
            else:
                self._lawful_outcome(at, process, pair, entry)
        if intents:
            self._mean(process, intents, ends)

    def recorded(self, at: float, process: str, content: bytes) -> None:
        """Check and record a new file of ownership records."""
        owned = decode(content, location="simulated")[CLUSTER_ID]
        self._lawful_ends(at, process, owned)
        self.recorded_as(at, process, owned)

    def recorded_as(self, at: float, process: str, owned: OwnershipRecords) -> None:
        """Check and record new ownership records."""
        self.record_writes += 1
        if self.policy not in CREATING and owned.records:
            raise LawBroken(f"records under policy Observe: {list(owned.records)}, by {process}")
        self.overridden.update(owned.overrides)
        for pair, intent in owned.intents.items():
            self.stored_intents[pair][whole(pair[1], intent.value)] = at
            if intent != self.records.intents.get(pair) and pair not in self.overridden:
                self._lawful_intent(owned, pair, intent.value, process)
        since = self._recorded_since(at, process)
        for entity, record in owned.records.items():
            before = self.records.records.get(entity)
            if before is not None and before.applied == record.applied:
                continue
            for column, key in enumerate(COLUMNS):
                value = record.applied[column]
                if value is None or (before is not None and before.applied[column] == value):
                    continue
                pair = entity, key
                # A rollback restores an earlier record, and so does the end of one that the broker refuses; also one that
                # it found as a write without an answer, and replaced at once.
                is_rolled_back = pair in owned.overrides or pair in self.records.overrides
                is_own = value in self.recorded_values[pair] or value in self.stored_intents[pair]
                if is_rolled_back and is_own:
                    continue
                self.recorded_values[pair].add(value)
                if whole(key, value) not in self.values_between(pair, since, at):
                    raise LawBroken(
                        f"records claim what was not applied: {entity} {key} = {value}, by {process}"
                    )
        self.records = owned

    def powerless(self, content: bytes | None) -> None:
        """Reset the records to the synced file after a power loss."""
        self.records = (
            OwnershipRecords(cluster_id=CLUSTER_ID)
            if content is None
            else decode(content, location="simulated")[CLUSTER_ID]
        )

    # -- laws ----------------------------------------------------------------------------------------

    def _announced(self, commit: Commit, pair: Pair, value: float | None) -> None:
        stored_at = self.stored_intents[pair].get(value)
        if stored_at is None or stored_at < commit.at - ANNOUNCED_SECONDS:
            raise LawBroken(
                f"a write that no record announced: {pair[0]} {pair[1]} -> {value} by {commit.writer}"
            )

    def _lawful_intent(
        self, owned: OwnershipRecords, pair: Pair, value: float | None, process: str
    ) -> None:
        """Check a new intent of records."""
        if self.rules.drift is DriftMode.CORRECT or value is None:
            return
        if recorded_value(owned, pair) == value:
            raise LawBroken(
                f"drift is corrected under {self.rules.drift}: {pair[0]} {pair[1]} -> {value}, by {process}"
            )

    def _lawful_ends(self, at: float, process: str, owned: OwnershipRecords) -> None:
        """Check that an intent of an earlier run ends only with its write, or when that can no longer be carried out."""
        run = self._run_of(process)
        for pair, intent in self.records.intents.items():
            if pair in owned.intents or at >= intent.at + SETTLING_SECONDS:
                continue
            value = whole(pair[1], intent.value)
            has_landed = value in self.values_between(pair, intent.at - STALE_SECONDS, at)
            if not has_landed and self.intent_runs.get(pair) is not run:
                raise LawBroken(
                    f"an intent of an earlier run ends too early: {pair[0]} {pair[1]} -> {intent.value}, by {process}"
                )
        for pair, intent in owned.intents.items():
            if run is not None and intent != self.records.intents.get(pair):
                self.intent_runs[pair] = run

    def _lawful_write(self, commit: Commit, pair: Pair, value: float | None) -> None:
        where = f"{pair[0]} {pair[1]} -> {value} by {commit.writer}"
        if self.policy not in CREATING:
            raise LawBroken(f"a write under policy {self.policy}: {where}")
        if not self.rules.in_scope(pair[0]):
            raise LawBroken(f"a write outside the scope: {where}")
        if value is None:
            self._requested_removal(commit, pair, where)
            self._bounded_removal(commit, pair, where)
        elif not self._asked(commit, pair, value):
            raise LawBroken(f"a value that was not requested: {where}")
        elif self.policy not in CHANGING and pair not in self.overridden:
            since = min(run.started for run in self._lately(commit)) - STALE_SECONDS
            if None not in self.values_between(pair, since, commit.at):
                raise LawBroken(f"a limit is replaced under policy {self.policy}: {where}")

    def _asked(self, commit: Commit, pair: Pair, value: float) -> bool:
        """Whether a document or an override of a recent run requested the value."""
        column = COLUMNS.index(pair[1])
        return (
            any(
                pair in run.overrides
                or any(
                    document.entity == pair[0]
                    and document.limits[column] == value
                    and not document.suspended
                    for document in run.documents.values()
                )
                for run in self._lately(commit)
            )
            or pair in self.records.overrides
        )

    def _requested_removal(self, commit: Commit, pair: Pair, where: str) -> None:
        runs = [run for run in self._lately(commit) if run.is_complete and not run.declared(pair)]
        if (
            any(pair in run.overrides for run in self._lately(commit))
            or pair in self.records.overrides
        ):
            return
        if not runs:
            raise LawBroken(f"a declared value is removed: {where}")
        if self.policy not in REMOVING:
            raise LawBroken(f"a removal under policy {self.policy}: {where}")
        since = min(run.started for run in runs) - STALE_SECONDS
        values = self.values_between(pair, since, commit.at)
        if not values & self.ours[pair] and not any(run.is_forced for run in runs):
            raise LawBroken(
                f"a removal that was not requested, of {sorted(filter(None, values))}: {where}"
            )
        record = self.records.records.get(pair[0])
        owner = record.owners[COLUMNS.index(pair[1])] if record is not None else None
        if owner is None or not owner.document:
            return
        if all(_is_suspended(run, owner.document) for run in self._lately(commit)):
            raise LawBroken(f"a removal although its document is suspended: {where}")
        exists = any(owner.document in run.documents for run in runs)
        policies = {self.retained.get(owner.document, owner.deletion_policy), owner.deletion_policy}
        if not exists and policies == {DeletionPolicy.RETAIN}:
            raise LawBroken(f"a removal although its document said Retain: {where}")
        if not exists and policies == {None} and self.policy not in SWEEPING:
            raise LawBroken(f"a removal under {self.policy} without a deletionPolicy: {where}")

    def _bounded_removal(self, commit: Commit, pair: Pair, where: str) -> None:
        """Check that a loop removes no more quota keys within an hour than its guard allows, across restarts."""
        is_counted = commit.writer.startswith(LOOPS) and pair not in self.overridden
        if not is_counted or self.live(pair) is None:
            return
        record = self.records.records.get(pair[0])
        owner = None if record is None else record.owners[COLUMNS.index(pair[1])]
        tenant = "" if owner is None else owner.document.partition("/")[0]
        self.removals.append((commit.at, tenant, pair))
        while self.removals[0][0] <= commit.at - REMOVAL_SECONDS:
            _ = self.removals.popleft()
        removed_pairs = {removed for _, whose, removed in self.removals if whose == tenant}
        if len(removed_pairs) > self.max_removals:
            raise LawBroken(
                f"more removals than the guard allows: {len(removed_pairs)} pairs of {tenant!r} within an hour,"
                f" by {where}"
            )

    def _lawful_order(self, commit: Commit) -> None:
        """Check that each client's limit is unchanged or intended by a run."""
        runs = self._recent(commit)
        for place in {
            (client, Key(record.key))
            for record in commit.records
            for client in MATCHED[entity_of(record.names)]
        }:
            client, key = place
            after = limit(commit.after, client, key)
            if after == limit(commit.before, client, key):
                continue
            if any(place in run.disturbed for run in runs):
                continue
            if not any(after in run.limits[place] for run in runs):
                raise LawBroken(
                    f"order: client {client} has {key} = {after} for a moment, which is neither before nor after"
                    f" ({[sorted(run.limits[place], key=str) for run in runs]}), by {commit.writer}"
                )

    def _lawful_outcome(
        self, at: float, process: str, pair: Pair, entry: Mapping[str, object]
    ) -> None:
        after, outcome = entry["after"], str(entry["outcome"])
        if outcome == "NOT LANDED":
            # Decided by a later describe: another writer may have replaced the value before it.
            run = self._run_of(process)
            since = (run.started if run is not None else at) - STALE_SECONDS
            if self.values_between(pair, since, at) == {after}:
                raise LawBroken(
                    f"the audit log says that a value is not live which is: {pair} {after}"
                )
        self.histories[pair].decided(
            at, process, after, outcome, is_settled="settledAt" in entry, lag=STALE_SECONDS
        )

    def check_histories(self) -> None:
        """Check for every quota key that the audit log explains the brokers' log."""
        for pair, history in self.histories.items():
            self._explained(pair, history.problem())

    def _explained(self, pair: Pair, problem: str) -> None:
        if problem:
            raise LawBroken(
                f"the audit log does not explain the brokers' log: {pair[0]} {pair[1]}: {problem}"
            )

    # -- state ---------------------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """The effective policy: Sync acts as Upsert until it is confirmed."""
        is_unconfirmed = self.rules.policy is Policy.SYNC and not self.rules.sync_confirmed
        return Policy.UPSERT if is_unconfirmed else self.rules.policy

    def values_between(self, pair: Pair, since: float, until: float) -> set[float | None]:
        """Return all values of the quota key in a time interval."""
        values: set[float | None] = set()
        current: float | None = None
        for at, value, _ in self.timeline[pair]:
            if at > until:
                break
            if at >= since:
                values.add(current)
            current = value
        values.add(current)
        return values

    def live(self, pair: Pair) -> float | None:
        """Return the last value in the log."""
        history = self.timeline.get(pair)
        return history[-1][1] if history else None

    def _recent(self, commit: Commit) -> list[Run]:
        return [
            run for run in self.runs if run.ended is None or run.ended > commit.at - LATE_SECONDS
        ]

    def _lately(self, commit: Commit) -> list[Run]:
        """Return the runs whose documents a write may be based on."""
        return self._recent(commit)

    def _recorded_since(self, at: float, process: str) -> float:
        """Return the earliest time at which a value that is recorded now may have been live."""
        run = self._run_of(process)
        return (run.started if run is not None else at) - STALE_SECONDS

    def _run_of(self, process: str) -> Run | None:
        return next((run for run in reversed(self.runs) if run.process == process), None)

    def _adopt(self, documents: Iterable[Declaration]) -> None:
        """Count declared values that are live as ours."""
        for document in documents:
            self.retained[document.document] = document.deletion_policy
            for key, value in zip(COLUMNS, document.limits, strict=True):
                if value is not None and self.live((document.entity, key)) == value:
                    self.ours[document.entity, key].add(value)
                    # Another writer restored the value after the product removed it, and a document declares it.
                    self.removed_at.pop((document.entity, key), None)

    def _mean(
        self,
        process: str,
        intents: Iterable[tuple[Pair, float | None]],
        ends: Collection[Pair] = (),
    ) -> None:
        """Record what a run intends to write; writes of ``ends`` end overrides."""
        run = self._run_of(process)
        if run is None:
            raise LawBroken(f"{process} intends to write outside of a run")
        intent_list = list(intents)
        run.removals |= {
            pair
            for pair, value in intent_list
            if value is None and pair not in self.overridden and self.live(pair) is not None
        }
        # Limits without a document are counted apart.
        is_command = not process.startswith(LOOPS)
        if is_command and len(run.removals) > self.max_removals:
            raise LawBroken(
                f"a command removes more than its guard allows: {len(run.removals)} pairs, by {process}"
            )
        # If other writes do not succeed, a client has the limit that the ends of overrides alone give it.
        undone = _changed(self.image, [intent for intent in intent_list if intent[0] in ends])
        images = self.image, undone, _changed(self.image, intent_list)
        for (entity, key), _ in intent_list:
            for client in MATCHED[entity]:
                run.limits[client, key].update(limit(image, client, key) for image in images)

    def _disturb(self, commit: Commit, pair: Pair) -> None:
        self.foreign_pairs.add(pair)
        for client in MATCHED[pair[0]]:
            for run in self._recent(commit):
                run.disturbed.add((client, pair[1]))


def _changed(image: Image, writes: Iterable[tuple[Pair, float | None]]) -> Image:
    """Return the quotas after some writes."""
    values = {names: dict(pairs) for names, pairs in image.values.items()}
    for (entity, key), value in writes:
        if value is None:
            values.get(names_of(entity), {}).pop(key, None)
        else:
            values.setdefault(names_of(entity), {})[key] = value
    return Image(values=values)


class _Histories(defaultdict[Pair, PairHistory]):
    """Quota key -> its history, with the brokers' initial value."""

    def __init__(self, image: Image) -> None:
        super().__init__()
        self._image = image

    def __missing__(self, pair: Pair) -> PairHistory:
        value = self._image.values.get(names_of(pair[0]), {}).get(pair[1])
        history = self[pair] = PairHistory(value)
        return history


def _pair_of(entry: Mapping[str, object]) -> Pair:
    parts = entry["entity"]
    assert isinstance(parts, list)
    return entity_of(tuple((kind, name) for kind, name in parts)), Key(str(entry["key"]))
