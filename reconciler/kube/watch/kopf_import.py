"""Kopf, imported without the official client, which it would load only to know two of its classes. Nothing else.

That costs 19 MB of a pod's memory, and the two classes matter only to handlers that are given the client's objects.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

CLIENT: Final = "kubernetes"


@contextmanager
def _without(name: str) -> Iterator[None]:
    """Inside, a package cannot be imported, unless it was already."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # as importlib documents it: the import fails
    try:
        yield
    finally:
        del sys.modules[name]


with _without(CLIENT):
    import kopf

__all__ = ["kopf"]
