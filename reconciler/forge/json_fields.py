"""Reads fields of a host's JSON; a missing field or another type is an error."""

from collections.abc import Mapping
from typing import TypeVar

from reconciler.errors import ForgeError
from reconciler.forge.rest_client import Json

T = TypeVar("T", str, int)


def required_field(document: Json, path: str, kind: type[T]) -> T:
    """Return the value at a path such as ``user.login``.

    Raises:
        ForgeError: It is missing, or of another type.
    """
    value: Json = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ForgeError(f"the host's answer has no {path} where one should be")
    return value


def optional_text(document: Json, path: str) -> str:
    """Return a text at a path; "" if it is missing: deleted accounts and deleted forks are ``null``."""
    value: Json = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else ""
