"""Compares resource versions: which of two versions of an object is newer, and which a listing contains."""

from reconciler.kube.api.custom_resources import Obj, resource_version_of


def _version(obj: Obj) -> int | None:
    """Return the resource version as a number; they increase within one kind (KEP-5504, and etcd revisions before it)."""
    return _number(resource_version_of(obj))


def _number(version: str) -> int | None:
    return int(version) if version.isascii() and version.isdecimal() else None


def is_before(first: Obj, second: Obj) -> bool:
    """Whether ``first`` was written before ``second``; false if their versions do not show it."""
    first_version, second_version = _version(first), _version(second)
    return (
        first_version is not None and second_version is not None and first_version < second_version
    )


def is_within(obj: Obj, version: str) -> bool:
    """Whether a listing of this version would contain the object if it still existed."""
    obj_version, listing_version = _version(obj), _number(version)
    return obj_version is None or listing_version is None or obj_version <= listing_version
