"""Opens the lake that a command names."""

import uuid
from typing import TYPE_CHECKING

from reconciler.base.clock import SystemClock

if TYPE_CHECKING:
    from reconciler.evidence.store.lake import Lake


def opened(address: str, *, create: bool = False) -> "Lake":
    """Open the lake.

    Args:
        create: Whether to create a missing folder.

    Raises:
        LakeError: There is no lake.
    """
    from reconciler.evidence.store.files import table_store
    from reconciler.evidence.store.lake import Lake

    store = table_store.opened(address, create=create)
    return Lake(store, clock=SystemClock(), run_id=uuid.uuid4().hex)
