"""The JSON Schemas (2020-12) of files, as installed with the package. `make generate` writes them from ``crds/``."""

import json
from importlib import resources
from typing import Any, Final, TypeAlias

Schema: TypeAlias = dict[str, Any]

FILES: Final = {
    "ClientQuota": "clientquota.json",
    "QuotaCluster": "quotacluster.json",
    "manifest": "manifest.json",
    "QuotaProject": "quotaproject.json",
    "kquota": "kquota.json",
}
"""Name of each schema -> file in ``reconciler/manifest/schemas``. ``manifest`` and ``kquota`` are for editors."""


def load(name: str) -> Schema:
    """Load a schema from the installed package."""
    file = resources.files("reconciler.manifest") / "schemas" / FILES[name]
    schema: Schema = json.loads(file.read_text(encoding="utf-8"))
    return schema
