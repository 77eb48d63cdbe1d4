"""A store of a test in a folder of its own, which disappears with it."""

import shutil
import weakref
from tempfile import mkdtemp

from reconciler.evidence.store.files import table_store
from reconciler.evidence.store.files.table_store import TableStore


class PassingStore(TableStore):
    """A store in a new temporary folder."""

    def __init__(self) -> None:
        place = mkdtemp()
        super().__init__(table_store.opened(place).at)
        weakref.finalize(self, shutil.rmtree, place, ignore_errors=True)
