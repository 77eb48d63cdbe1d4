"""Extras of the package: what a command needs beyond the base install, and what to type if it is missing."""

import importlib.util
from typing import Final

from reconciler.base.installation import install_hint
from reconciler.errors import UsageError

MODULES: Final = {
    "http": ("aiohttp",),
    "watch": ("aiohttp", "prometheus_client"),
    "usage": ("aiohttp", "numpy", "obstore", "pyarrow"),
    "spark": ("aiohttp", "numpy", "obstore", "pyarrow", "pyspark"),
    "operator": ("aiohttp", "kopf", "kubernetes", "prometheus_client"),
}
"""What each extra of pyproject.toml brings, by the names that are imported."""


def needs(extra: str, command_name: str) -> None:
    """Make sure that an extra is installed, before anything is done.

    Args:
        extra: Its name.
        command_name: What needs it, as it was typed.

    Raises:
        UsageError: It is not.
    """
    missing = [name for name in MODULES[extra] if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"{command_name} needs {', '.join(missing)}, which the base install does not bring",
            hint=install_hint(extra),
        )
