"""What docs/semantics.md says of sequences of commands: the state of each limit, and one function for each command.

It shares nothing with the planner. One quota key, four entities, documents of one limit each. A document outside the scope is
refused by the loader, so a scope is narrowed together with the documents outside it. Guards permit everything. Temporary
limits have two layers: the record under them stays, and at their end the declared value or the one from before returns.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.quota.policy import Policy
from tests.policies import CHANGING, CREATING, PERMISSIONS, REMOVING, SWEEPING

WIDER = {"alice/shop": ("alice", "anyone"), "alice": ("anyone",), "bob": ("anyone",), "anyone": ()}
"""Entity -> the wider entities that its clients fall back to."""
NARROW = frozenset({"alice", "alice/shop"})
POLICIES = {
    **{str(policy): policy for policy in PERMISSIONS if policy is not Policy.SYNC},
    "Unconfirmed": Policy.UPSERT,
    "Sync": Policy.SYNC,
}
"""Policy as it is drawn -> the one in force; Sync without a confirmation is Upsert."""

TABLE = {
    # (applied, live); d = as declared, a = as applied, - = none, x = another value: name, and the policies under
    # which it is recorded or set
    ("-", "-"): ("Create", CREATING),
    ("-", "d"): ("Adopt", CREATING),
    ("-", "x"): ("Takeover", CHANGING),
    ("d", "d"): ("InSync", CREATING),
    ("a", "d"): ("Converged", CREATING),
    ("d", "-"): ("Drift", CHANGING),
    ("d", "x"): ("Drift", CHANGING),
    ("a", "a"): ("Spec", CHANGING),
    ("a", "-"): ("SpecOverDrift", CHANGING),
    ("a", "x"): ("SpecOverDrift", CHANGING),
}
"""A declared limit: afterwards it is live and recorded as the document's, if the policy permits it; drift only if corrected."""

UNDECLARED = {
    # why it is not declared any more: the policies that remove it, and what happens under others
    "left its document": (REMOVING, "stays"),
    "deleted, Delete": (REMOVING, "stays"),
    "deleted, Retain": (frozenset[Policy](), "orphaned"),
    "deleted, unset": (SWEEPING, "orphaned"),
    "released": (frozenset[Policy](), "orphaned"),
}
"""An owned limit that is live as applied and that no document declares."""


class Document(NamedTuple):
    """A document in force or suspended: one limit of one entity."""

    subject: str
    value: float
    deletion: str = "unset"
    is_suspended: bool = False


class Record(NamedTuple):
    """The ownership record of a limit."""

    applied: float
    document: str
    deletion: str
    is_orphan: bool = False


class Temporary(NamedTuple):
    """A temporary limit above a record: its value, and the one that returns."""

    value: float | None
    before: float | None
    is_rollback: bool = False
    declared: float | None = None  # at the beginning; another declared value ends a rollback


class Pair(NamedTuple):
    """A limit: its live value, its record, and a temporary limit."""

    live: float | None = None
    record: Record | None = None
    temporary: Temporary | None = None


Change: TypeAlias = tuple[str, float | None, tuple[bool, bool, bool], float | None, str]
"""Entity, live value, how record, live value and declaration agree, value after, document."""


class Undo(NamedTuple):
    """What a rollback knows of a limit: how it was before a command, its value after it, and whether that began a layer."""

    pair: Pair
    after: float | None
    begins: bool = False


class Approved(NamedTuple):
    """A saved plan: what it does to each limit, seen from which state; and what clients of removed limits fall back to."""

    changes: frozenset[Change]
    fallbacks: frozenset[tuple[str, float]]


class State(Struct, frozen=True, kw_only=True):
    """Everything that a command reads and writes."""

    pairs: Mapping[str, Pair] = field(default_factory=lambda: dict.fromkeys(WIDER, Pair()))
    documents: Mapping[str, Document] = field(default_factory=dict[str, Document])
    policy: str = "Upsert"
    scope: frozenset[str] = frozenset(WIDER)
    saved: Approved | None = None
    undo: Mapping[str, Undo] = field(default_factory=dict[str, Undo])
    """What the last command changed that writes to the cluster and keeps an outcome."""

    @property
    def in_force(self) -> Policy:
        """The policy in force."""
        return POLICIES[self.policy]

    @property
    def is_contested(self) -> bool:
        """Whether two documents in force declare one limit."""
        active = [item.subject for item in self.documents.values() if not item.is_suspended]
        return len(active) > len(set(active))

    def declared(self, subject: str) -> tuple[str, Document] | None:
        """The document in force that declares a limit; none where a suspended one owns it, or alone declares it."""
        record = self.pairs[subject].record
        owner = None if record is None else self.documents.get(record.document)
        if owner is not None and owner.is_suspended:
            return None
        claims = (item for item in self.documents.items() if item[1].subject == subject)
        return next((item for item in claims if not item[1].is_suspended), None)

    def is_frozen(self, subject: str) -> bool:
        """Whether a suspended document owns or alone declares a limit."""
        if self.declared(subject) is not None:
            return False
        record = self.pairs[subject].record
        owner = None if record is None else self.documents.get(record.document)
        return (owner is not None and owner.is_suspended) or any(
            document.subject == subject for document in self.documents.values()
        )

    def with_pairs(self, pairs: Mapping[str, Pair]) -> "State":
        """Return the state with other pairs."""
        return replace(self, pairs={**self.pairs, **pairs})

    def written(self, pairs: Mapping[str, Pair]) -> "State":
        """Return the state after a command that keeps an outcome, if it changes a live value."""
        undo = {
            name: Undo(before, pair.live, begins=pair.temporary not in {None, before.temporary})
            for name, pair in pairs.items()
            if pair.live != (before := self.pairs[name]).live
        }
        return replace(self.with_pairs(pairs), undo=undo or self.undo)


# ---- what people and other writers do ---------------------------------------------------------


def declare(state: State, name: str, subject: str, value: float, deletion: str) -> State:
    """A document is written or rewritten; outside the scope it would be refused."""
    if subject not in state.scope:
        return state
    return replace(state, documents={**state.documents, name: Document(subject, value, deletion)})


def suspend(state: State, name: str, is_suspended: bool) -> State:
    """A document is suspended or resumed."""
    if name not in state.documents:
        return state
    changed = state.documents[name]._replace(is_suspended=is_suspended)
    return replace(state, documents={**state.documents, name: changed})


def rename(state: State, name: str, new: str) -> State:
    """A document gets another name."""
    if name not in state.documents or new in state.documents:
        return state
    return replace(
        state,
        documents={new if key == name else key: item for key, item in state.documents.items()},
    )


def delete(state: State, name: str) -> State:
    """A document is deleted."""
    return replace(
        state, documents={key: item for key, item in state.documents.items() if key != name}
    )


def set_policy(state: State, policy: str) -> State:
    """The project gets another policy."""
    return replace(state, policy=policy)


def set_scope(state: State, *, is_narrow: bool) -> State:
    """The project gets another scope; the documents outside it are deleted with the same commit."""
    scope = NARROW if is_narrow else frozenset(WIDER)
    inside = {key: item for key, item in state.documents.items() if item.subject in scope}
    return replace(state, scope=scope, documents=inside)


def write(state: State, subject: str, value: float | None) -> State:
    """Another writer sets or removes a limit."""
    return state.with_pairs({subject: state.pairs[subject]._replace(live=value)})


# ---- what kquota does -------------------------------------------------------------------------


def apply(state: State, *, corrects: bool = False) -> State:
    """`kquota apply`, with `--correct-drift` or without."""
    if state.is_contested:
        return state
    return state.written(
        {subject: applied_pair(state, subject, corrects=corrects) for subject in WIDER}
    )


def applied_pair(state: State, subject: str, *, corrects: bool = False) -> Pair:
    """What an apply makes of a limit."""
    pair, claim = state.pairs[subject], state.declared(subject)
    if state.in_force not in CREATING:
        return pair
    if pair.temporary is not None:
        if is_over(state, subject):
            return ended_pair(state, subject)
        is_corrected = corrects and state.in_force in CHANGING and subject in state.scope
        return pair._replace(live=pair.temporary.value) if is_corrected else pair
    if state.is_frozen(subject):
        return pair
    if claim is None:
        return undeclared_pair(state, subject)
    cause, policies = TABLE[row_of(pair, claim[1].value)]
    is_made = state.in_force in policies and (corrects or cause != "Drift")
    return declared_pair(claim) if is_made else pair


def row_of(pair: Pair, declared: float) -> tuple[str, str]:
    """The row of the table of a declared limit."""
    applied = None if pair.record is None else pair.record.applied
    names = {None: "-", declared: "d"}
    row = names.get(applied, "a")
    return row, "a" if row == "a" and pair.live == applied else names.get(pair.live, "x")


def declared_pair(claim: tuple[str, Document]) -> Pair:
    """A limit that is as its document declares."""
    name, document = claim
    return Pair(document.value, Record(document.value, name, document.deletion))


def undeclared_pair(state: State, subject: str) -> Pair:
    """What an apply makes of a limit that no document declares."""
    pair = state.pairs[subject]
    if pair.record is None:
        return pair
    if pair.live is None:
        return Pair()
    if pair.live != pair.record.applied:
        return pair
    policies, fate = UNDECLARED[ending_of(state, subject, pair.record)]
    if state.in_force in policies:
        return Pair()
    orphan = pair._replace(record=pair.record._replace(is_orphan=True))
    return orphan if fate == "orphaned" else pair


def ending_of(state: State, subject: str, record: Record) -> str:
    """Why an owned limit is not declared any more."""
    if subject not in state.scope:
        return "released"
    if record.document in state.documents and not record.is_orphan:
        return "left its document"
    if record.is_orphan and record.deletion == "Delete":
        return "deleted, Retain"  # What replaced its removal once is not undone without a request.
    return f"deleted, {record.deletion}"


def correct(state: State) -> State:
    """One observation of `kquota drift --watch --correct-drift`: drift from what was applied and is still declared."""
    if state.in_force not in CHANGING or state.is_contested:
        return state
    return state.with_pairs({subject: corrected_pair(state, subject) for subject in WIDER})


def corrected_pair(state: State, subject: str) -> Pair:
    """What a correction makes of a limit."""
    pair, claim = state.pairs[subject], state.declared(subject)
    if is_over(state, subject):
        return pair  # Its document changed, which is for an apply.
    if pair.temporary is not None:
        after = applied_pair(state, subject, corrects=True)
        return pair if after.live == pair.live else after
    if claim is None or TABLE[row_of(pair, claim[1].value)][0] != "Drift":
        return pair
    return declared_pair(claim)


def save_plan(state: State) -> State:
    """`kquota plan --out`, reviewed and approved."""
    return replace(state, saved=None if state.is_contested else approved_of(state))


def apply_saved(state: State) -> State:
    """`kquota apply plan.json`: as an apply, if it still does what was approved."""
    if state.saved is None or state.is_contested or state.saved != approved_of(state):
        return state
    return apply(state)


def approved_of(state: State) -> Approved:
    """What a plan does now, below temporary limits: also what waits for their end."""
    changes: set[Change] = set()
    fallbacks: set[tuple[str, float]] = set()
    for subject, pair in below(state).items():
        after = (
            applied_pair(state, subject)
            if pair == state.pairs[subject]
            else pending(state, subject)
        )
        if after.live == pair.live:
            continue
        record = pair.record
        applied = None if record is None else record.applied
        cause = record is None, applied == pair.live, applied == after.live
        owner = record if after.record is None else after.record
        document = "" if owner is None else owner.document
        changes.add((subject, pair.live, cause, after.live, document))
        if after.live is None:
            wider = ((name, below(state)[name].live) for name in WIDER[subject])
            fallbacks.update((name, value) for name, value in wider if value is not None)
    return Approved(frozenset(changes), frozenset(fallbacks))


def below(state: State) -> Mapping[str, Pair]:
    """The limits without the temporary ones."""
    return {
        name: pair if pair.temporary is None else Pair(pair.temporary.before, pair.record)
        for name, pair in state.pairs.items()
    }


def pending(state: State, subject: str) -> Pair:
    """What is declared under a temporary limit, unless a rollback just took it back."""
    pair, claim = below(state)[subject], state.declared(subject)
    temporary = state.pairs[subject].temporary
    if claim is None or temporary is None:
        return pair
    value = claim[1].value
    is_known = temporary.is_rollback and value == temporary.declared
    is_applied = pair.record is not None and pair.record.applied == value
    return pair if is_known or is_applied else declared_pair(claim)


# ---- temporary limits -------------------------------------------------------------------------


def override(state: State, subject: str, value: float | None) -> State:
    """`kquota override`: what begins is written, where policy and scope permit it."""
    if not may_begin(state, subject):
        return state
    pair = state.pairs[subject]
    temporary = Temporary(value, value_before(pair), declared=known_declaration(state, subject))
    return state.written({subject: Pair(value, pair.record, temporary)})


def value_before(pair: Pair) -> float | None:
    """The value that returns after a temporary limit that begins now: that from before an earlier one, if it is live."""
    earlier = pair.temporary
    return pair.live if earlier is None or pair.live != earlier.value else earlier.before


def end(state: State, subject: str) -> State:
    """`kquota override end`."""
    if state.pairs[subject].temporary is None or state.in_force not in CREATING:
        return state
    return state.written({subject: ended_pair(state, subject)})


def roll_back(state: State) -> State:
    """`kquota rollback` of the last command: each limit has the value, the owner and the value below from before it."""
    if not all(may_begin(state, subject) for subject in state.undo):
        return state
    return state.written({subject: rolled_back(state, subject) for subject in state.undo})


def rolled_back(state: State, subject: str) -> Pair:
    """What a rollback makes of a limit."""
    pair, (before, after, begins) = state.pairs[subject], state.undo[subject]
    guess = known_declaration(state, subject)
    state = state.with_pairs({subject: pair._replace(record=before.record)})
    claim = None if state.is_contested else state.declared(subject)
    value = None if claim is None else claim[1].value
    if begins and pair.temporary is None and before.live == pair.live == value:
        return Pair(pair.live, before.record)  # It ended, and its document applies again.
    if begins and pair.temporary is not None and pair.temporary.value == after:
        is_kept = value is not None or state.is_contested or before.record is None
        is_kept = is_kept and not is_new(pair.temporary, value, before.record)
        if is_kept and (ended := ended_pair(state, subject)).live == before.live:
            return ended
    value = guess if state.is_contested else value
    own_values = {after, None if pair.record is None else pair.record.applied}
    is_own = pair.live in own_values | ({pair.temporary.value} if pair.temporary else set())
    if is_own or not (begins or before.temporary):
        base = before.live if before.temporary is None else before.temporary.before
    else:
        base = pair.live  # That of another writer stays.
    is_rollback = value is None or value in judged_values(pair)
    temporary = Temporary(before.live, base, is_rollback, value)
    return Pair(before.live, before.record, temporary)


def is_new(temporary: Temporary, value: float | None, record: Record | None) -> bool:
    """Whether no guard judged what is declared under a temporary limit."""
    if temporary.is_rollback and value == temporary.declared:
        return False
    return value not in {None, temporary.before, None if record is None else record.applied}


def known_declaration(state: State, subject: str) -> float | None:
    """What is declared; if documents cannot be used, the best guess: what a temporary limit found, or what was applied."""
    record, earlier = state.pairs[subject].record, state.pairs[subject].temporary
    if not state.is_contested:
        claim = state.declared(subject)
        return None if claim is None else claim[1].value
    if earlier is not None:
        return earlier.declared
    return None if record is None or record.is_orphan else record.applied


def judged_values(pair: Pair) -> set[float | None]:
    """The values that guards have judged: what was applied, also what a rollback took back."""
    record, earlier = pair.record, pair.temporary
    values = set() if record is None else {record.applied}
    return values | ({earlier.declared} if earlier is not None and earlier.is_rollback else set())


def is_over(state: State, subject: str) -> bool:
    """Whether the declared value of a rolled-back limit changed since."""
    claim, temporary = state.declared(subject), state.pairs[subject].temporary
    value = None if claim is None else claim[1].value
    return temporary is not None and temporary.is_rollback and value != temporary.declared


def may_begin(state: State, subject: str) -> bool:
    """Whether a temporary limit may begin: CreateOnly creates limits and changes none."""
    is_created = state.pairs[subject].live is None
    return subject in state.scope and state.in_force in (CREATING if is_created else CHANGING)


def ended_pair(state: State, subject: str) -> Pair:
    """A limit after the end of its temporary limit; documents that cannot be used declare nothing."""
    pair = state.pairs[subject]
    claim = None if state.is_contested else state.declared(subject)
    assert pair.temporary is not None
    if claim is not None:
        return declared_pair(claim)
    is_own = pair.live == pair.temporary.value
    return Pair(pair.temporary.before if is_own else pair.live, pair.record)
