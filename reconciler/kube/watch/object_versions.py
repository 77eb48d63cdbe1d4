"""Which of two versions of an object is newer, and which a listing holds."""

from reconciler.kube.api.custom_resources import Obj, resource_version_of


def _version(obj: Obj) -> int | None:
    """The resource version as a number; they grow within one kind (KEP-5504, and etcd's revisions before it)."""
    return _number(resource_version_of(obj))


def _number(version: str) -> int | None:
    return int(version) if version.isascii() and version.isdecimal() else None


def is_before(first: Obj, second: Obj) -> bool:
    """Whether one was written before the other, as far as their versions show."""
    first_version, second_version = _version(first), _version(second)
    return (
        first_version is not None and second_version is not None and first_version < second_version
    )


def is_within(obj: Obj, version: str) -> bool:
    """Whether a listing of this version would hold the object, if it were still there."""
    obj_version, listing_version = _version(obj), _number(version)
    return obj_version is None or listing_version is None or obj_version <= listing_version
