"""What a document on its way out said last, against what the records know of it. The word that keeps more counts."""

from dataclasses import replace

from reconciler.kube.api.custom_resources import Obj, spec_of
from reconciler.quota.keys import COLUMN_OF
from reconciler.quota.ownership import NO_RECORD, Owner, OwnershipRecords, Pair
from reconciler.quota.policy import DeletionPolicy


def effective_owner(owner: Owner, obj: Obj) -> Owner:
    """The owner of a pair as it is to be judged when its document goes.

    A change to Retain and a deletion right afterwards may be quicker than any pass, so the deletionPolicy of the
    spec counts where it keeps more than the recorded one. It never removes more: rights are judged by passes only.

    Args:
        owner: As recorded.
        obj: The document as it was last seen.
    """
    deletion_policy = spec_of(obj).get("deletionPolicy")
    if deletion_policy == DeletionPolicy.RETAIN:
        return replace(owner, deletion_policy=DeletionPolicy.RETAIN)
    if deletion_policy is None and owner.deletion_policy is DeletionPolicy.DELETE:
        return replace(owner, deletion_policy=None)
    return owner


def was_given_up(remainder: OwnershipRecords, pair: Pair, owner: Owner | None) -> bool:
    """Whether the ConfigMaps know better than the status of a document that went: its pair was set to stay meanwhile.

    Args:
        remainder: What the ConfigMaps hold.
        pair: The pair.
        owner: Its owner by the status; ``None`` = none.
    """
    stored_owner = remainder.records.get(pair[0], NO_RECORD).owners[COLUMN_OF[pair[1]]]
    if stored_owner is None or owner is None or pair not in remainder.orphaned:
        return False
    return stored_owner.document == owner.document
