"""Kopf's stores, empty: it may remember nothing on our objects, and compares nothing that is not asked for.

Its own ones copy every object deeply, three times for each event, to find out what changed for handlers that do not
exist here: a third of all CPU where the events are answers to our own statuses.
"""

from collections.abc import Iterable
from typing import Any

from reconciler.kube.watch.kopf_import import kopf


class NoDifferences(kopf.DiffBaseStorage):
    """No object has anything worth comparing."""

    def build(self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None) -> Any:  # noqa: ANN401, ARG002 - Kopf's
        """Nothing."""
        return {}

    def fetch(self, *, body: kopf.Body) -> None:  # noqa: ARG002 - Kopf's
        """Nothing was seen before."""
        return

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: Any) -> None:  # noqa: ANN401 - Kopf's
        """Nothing is remembered."""


class NoProgress(kopf.ProgressStorage):
    """No handler of ours is ever half done."""

    def fetch(self, *, key: Any, body: kopf.Body) -> None:  # noqa: ANN401, ARG002 - Kopf's
        """Nothing was begun."""
        return

    def store(self, *, key: Any, record: Any, body: kopf.Body, patch: kopf.Patch) -> None:  # noqa: ANN401 - Kopf's
        """Nothing is remembered."""

    def purge(self, *, key: Any, body: kopf.Body, patch: kopf.Patch) -> None:  # noqa: ANN401 - Kopf's
        """There is nothing to forget."""

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: Any) -> None:  # noqa: ANN401 - Kopf's
        """Nothing is written."""

    def clear(self, *, essence: Any) -> Any:  # noqa: ANN401 - Kopf's
        """As it is: there is nothing of ours in it."""
        return essence
