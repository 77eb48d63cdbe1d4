"""The quotas of JulieOps descriptors (``platform.kafka.quotas``).

Source: Quota and QuotasClientBindingsBuilder of kafka-ops/julie (2024-06-06). The principal becomes the name of the
user unchanged, so the documented ``User:App0`` limits a user with exactly this name, who cannot exist: it is imported
as it is live, with a note. An empty principal is the default user.
"""

from typing import Final

from reconciler.manifest.foreign.collector import Files, ImportCollector
from reconciler.manifest.foreign.document_tree import DocumentTree, all_documents, limits
from reconciler.quota.entity import DEFAULT
from reconciler.quota.keys import Key

_PRINCIPAL: Final = "principal"
_PREFIX: Final = "User:"
_KEYS: Final = {
    str(key): str(key)
    for key in (Key.PRODUCER_BYTE_RATE, Key.CONSUMER_BYTE_RATE, Key.REQUEST_PERCENTAGE)
}


def read(files: Files, collector: ImportCollector) -> None:
    """Read the quotas of every descriptor."""
    for document in all_documents(files):
        with collector.entry():
            quotas = document.find("platform", "kafka", "quotas")
            for quota in quotas.items() if quotas is not None else ():
                with collector.entry():
                    _read_quota(quota, collector)


def _read_quota(quota: DocumentTree, collector: ImportCollector) -> None:
    principal = quota.need(_PRINCIPAL)
    name = principal.text()
    if "${" in name:
        raise principal.wrong("a placeholder; put its value in first")
    quota_limits = [limit for limit in limits(quota, _KEYS) if limit.key != _PRINCIPAL]
    if name.startswith(_PREFIX):
        collector.note(
            principal,
            f"JulieOps includes {_PREFIX} in the name, so this limits no client; "
            "it is imported unchanged; remove the prefix to limit the user",
            (("user", name),),
        )
    collector.add(quota, quota_limits, {"user": name or DEFAULT})
