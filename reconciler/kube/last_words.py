"""What a document on its way out said last, against what the records know of it. The word that keeps more counts."""

from dataclasses import replace

from reconciler.kube.resources import Obj, spec_of
from reconciler.quota.keys import COLUMN_OF
from reconciler.quota.owned import NO_RECORD, Owned, Owner, Pair
from reconciler.quota.policy import DeletionPolicy


def meant(owner: Owner, obj: Obj) -> Owner:
    """The owner of a pair as it is to be judged when its document goes.

    Somebody who says Retain and deletes right afterwards may be quicker than any pass, so the deletionPolicy of the
    spec counts where it keeps more than the recorded one. It never removes more: rights are judged by passes only.

    Args:
        owner: As recorded.
        obj: The document as it was last seen.
    """
    said = spec_of(obj).get("deletionPolicy")
    if said == DeletionPolicy.RETAIN:
        return replace(owner, deletion_policy=DeletionPolicy.RETAIN)
    if said is None and owner.deletion_policy is DeletionPolicy.DELETE:
        return replace(owner, deletion_policy=None)
    return owner


def was_given_up(rest: Owned, pair: Pair, owner: Owner | None) -> bool:
    """Whether the ConfigMaps know better than the status of a document that went: its pair was told to stay meanwhile.

    Args:
        rest: What the ConfigMaps hold.
        pair: The pair.
        owner: Its owner by the status; ``None`` = none.
    """
    kept = rest.records.get(pair[0], NO_RECORD).owners[COLUMN_OF[pair[1]]]
    if kept is None or owner is None or pair not in rest.orphaned:
        return False
    return kept.document == owner.document
