"""What kafka-ui answers to ``GET /api/clusters/NAME/clientquotas``: a JSON list.

Read in contract-typespec/api/quotas.tsp and ClientQuotaService of kafbat/kafka-ui (2026-07-31). A slot that is null is
either absent or the default: the answer cannot tell. So a record that names nothing is listed, and so are records that
look alike; one that names only a user or only a client-id is taken for exactly that, and this is said.
"""

from collections import Counter
from typing import Final

from reconciler.manifest.foreign.gathering import Files, Gathering, Parts
from reconciler.manifest.foreign.trees import Tree, documents, limits
from reconciler.quota.entity import ABSENT

_FIELDS: Final = (("user", "user"), ("clientId", "client-id"), ("ip", "ip"))


def read(files: Files, found: Gathering, *, cluster: str | None) -> None:  # noqa: ARG001 - one signature for all
    """Gather every record.

    Raises:
        ManifestErrors: A text is neither JSON nor YAML, or no list.
    """
    for path, text in files:
        records: list[tuple[Tree, Parts]] = []
        for document in documents(path, text):
            for one in document.items():
                with found.entry():
                    records.append((one, _named(one)))
        seen = Counter(named for _, named in records)
        for one, named in records:
            with found.entry():
                _read_record(one, named, found, alike=seen[named] > 1)


def _named(one: Tree) -> Parts:
    return tuple((kind, name) for field, kind in _FIELDS if (name := one.named(field)) is not None)


def _read_record(one: Tree, named: Parts, found: Gathering, *, alike: bool) -> None:
    if not named:
        found.lose(one.path, one.line, "a default of some type; the answer does not say of which")
        return
    if alike:
        found.lose(
            one.path,
            one.line,
            "several records look alike, because the answer does not show defaults",
            named,
        )
        return
    if {kind for kind, _ in named} in ({"user"}, {"client-id"}):
        found.note(
            one.path,
            one.line,
            "taken as it stands; kafka-ui shows the same where the other part is a default",
            named,
        )
    slots = dict(named)
    found.add(
        one.path,
        one.line,
        limits(one.get("quotas"), live=True),
        user=slots.get("user", ABSENT),
        client_id=slots.get("client-id", ABSENT),
        ip=slots.get("ip", ABSENT),
    )
