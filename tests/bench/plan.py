"""Planning of 100,000 desired and observed entities, 1 % of them changed, against one plain loop over both."""

from collections.abc import Callable

ENTITIES = 100_000
CHANGED_EVERY = 100


def planner() -> Callable[[], object]:
    from reconciler.quota.entity import entity
    from reconciler.quota.ownership import Owner, OwnershipRecord, OwnershipRecords
    from reconciler.quota.planner.comparison import compare
    from reconciler.quota.planner.desired_state import Declaration, merge
    from reconciler.quota.policy import Rules
    from reconciler.quota.state import QuotaState

    subjects = [
        entity(user=f"user-{number}", client_id=f"client-{number}") for number in range(ENTITIES)
    ]
    desired = merge(
        Declaration(
            document=f"team/doc-{number}",
            entity=subject,
            limits=(float(1 + number + (number % CHANGED_EVERY == 0)), 2.0, 50.0, None, None),
        )
        for number, subject in enumerate(subjects)
    )
    # New entity objects on each side, as from a file, a broker and an inventory.
    copies = [
        entity(user=f"user-{number}", client_id=f"client-{number}") for number in range(ENTITIES)
    ]
    live = QuotaState(
        limits={
            subject: (float(1 + number), 2.0, 50.0, None, None)
            for number, subject in enumerate(copies)
        }
    )
    records = {}
    for number in range(ENTITIES):
        owner = Owner(document=f"team/doc-{number}", since=1.0)
        subject = entity(user=f"user-{number}", client_id=f"client-{number}")
        records[subject] = OwnershipRecord(
            (float(1 + number), 2.0, 50.0, None, None), (owner, owner, owner, None, None)
        )
    owned = OwnershipRecords(cluster_id="bench", records=records)

    def work() -> object:
        plan = compare(desired=desired, owned=owned, live=live, rules=Rules(), now=2.0)
        if len(plan.changes) != ENTITIES // CHANGED_EVERY:
            raise SystemExit(f"{len(plan.changes)} changes")
        return plan

    return work


def plain_loop() -> Callable[[], object]:
    desired = {
        (f"user-{number}", f"client-{number}", False): (
            float(1 + number + (number % CHANGED_EVERY == 0)),
            2.0,
            50.0,
            None,
            None,
        )
        for number in range(ENTITIES)
    }
    observed = {
        (f"user-{number}", f"client-{number}", False): (float(1 + number), 2.0, 50.0, None, None)
        for number in range(ENTITIES)
    }

    def work() -> object:
        changed, added, missing = [], [], []
        for key, value in desired.items():
            current = observed.get(key)
            if current is None:
                added.append(key)
            elif current != value:
                changed.append((key, current, value))
        missing.extend(key for key in observed if key not in desired)
        if len(changed) != ENTITIES // CHANGED_EVERY:
            raise SystemExit(f"{len(changed)} changes")
        return changed, added, missing

    return work


CANDIDATES: dict[str, Callable[[], Callable[[], object]]] = {
    "ours": planner,
    "plain loop": plain_loop,
}
