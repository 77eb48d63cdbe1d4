"""The package and its extras: their modules, the commands that need them, and how to install them with this version."""

import importlib.util
from typing import Final

from reconciler import RELEASED, __version__
from reconciler.errors import UsageError

PROJECT: Final = "kafka-quota-reconciler"
"""The name of the project on the package index."""

WHEEL: Final = f"kafka_quota_reconciler-{__version__}-py3-none-any.whl"
"""The file name of the wheel that `make dist` builds."""


def install_commands(extra: str, *, released: bool = RELEASED) -> tuple[str, ...]:
    """Return shell commands, each of which installs this version with an extra.

    Args:
        extra: A name of `[project.optional-dependencies]` in pyproject.toml; "" = the base installation.
        released: Whether the package index has this version.

    Returns:
        One command for a released version. Otherwise the command for the top folder of a checkout, then the command for
        the folder of the wheel.
    """
    sources = (PROJECT,) if released else (".", f"./{WHEEL}")
    suffix = f"[{extra}]" if extra else ""
    return tuple(f"pip install '{source}{suffix}'" for source in sources)


def install_hint(extra: str, *, released: bool = RELEASED) -> str:
    """Return the command that installs an extra, as one line for the hint of an error."""
    commands = install_commands(extra, released=released)
    if released:
        return commands[0]
    checkout, wheel = commands
    return f"run {checkout} in a checkout, or {wheel} beside the wheel"


MODULES: Final = {
    "http": ("aiohttp",),
    "watch": ("aiohttp", "prometheus_client"),
    "usage": ("aiohttp", "numba", "numpy", "obstore", "pyarrow"),
    "spark": ("aiohttp", "numba", "numpy", "obstore", "pyarrow", "pyspark"),
    "operator": ("aiohttp", "kopf", "kubernetes", "prometheus_client"),
}
"""The import names that each extra of pyproject.toml installs."""


def needs(extra: str, command_name: str) -> None:
    """Check that an extra is installed, before anything is done.

    Args:
        command_name: The command that needs it, as typed.

    Raises:
        UsageError: It is not installed.
    """
    missing = [name for name in MODULES[extra] if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"{command_name} needs {', '.join(missing)}, which the base installation does not include",
            hint=install_hint(extra),
        )


def incomplete_installation(error: ModuleNotFoundError) -> UsageError | None:
    """Return the error of a missing module of another package; ``None`` for a module of this one."""
    name = (error.name or "").partition(".")[0]
    if name in {"", "reconciler"}:
        return None
    extra = next((extra for extra, modules in MODULES.items() if name in modules), "")
    return UsageError(
        f"the installation is incomplete: the Python module {name} is missing",
        hint=install_hint(extra),
    )
