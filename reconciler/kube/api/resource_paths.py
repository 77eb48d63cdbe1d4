"""The resources of the API server with group, version and plural, and their URL paths."""

from typing import Final
from urllib.parse import quote

from msgspec import Struct

from reconciler.manifest.schema_names import API_VERSION, GROUP


class ApiResource(Struct, frozen=True, kw_only=True):
    """One kind of object, as in paths."""

    group: str  # API group; "" = the core group
    version: str  # version within the group
    plural: str  # name in paths, lower case

    @property
    def api_version(self) -> str:
        """``apiVersion`` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def kind(self) -> tuple[str, str, str]:
        """Group, version and plural, as Kopf names a kind."""
        return self.group, self.version, self.plural

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of an object or, without a name, of a collection.

        Args:
            namespace: "" = all namespaces, or cluster-scoped.
            name: "" = the collection.
            subresource: For example ``status``; only with a name.
        """
        root = f"apis/{self.group}" if self.group else "api"
        parts = ["", root, self.version]
        if namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


_VERSION: Final = API_VERSION.partition("/")[2]
CLIENT_QUOTAS: Final = ApiResource(group=GROUP, version=_VERSION, plural="clientquotas")
QUOTA_CLUSTERS: Final = ApiResource(group=GROUP, version=_VERSION, plural="quotaclusters")
CONFIG_MAPS: Final = ApiResource(group="", version="v1", plural="configmaps")
SECRETS: Final = ApiResource(group="", version="v1", plural="secrets")
DEFINITIONS: Final = ApiResource(
    group="apiextensions.k8s.io", version="v1", plural="customresourcedefinitions"
)
CLIENT_QUOTA_DEFINITION: Final = f"{CLIENT_QUOTAS.plural}.{CLIENT_QUOTAS.group}"
"""Name of the CustomResourceDefinition of ClientQuota."""
LEASES: Final = ApiResource(group="coordination.k8s.io", version="v1", plural="leases")
EVENTS: Final = ApiResource(group="events.k8s.io", version="v1", plural="events")
