"""The commands that install this version with an extra, as hints and errors print them."""

from typing import Final

from reconciler import RELEASED, __version__

PROJECT: Final = "kafka-quota-reconciler"
"""The name of the project on the package index."""

WHEEL: Final = f"kafka_quota_reconciler-{__version__}-py3-none-any.whl"
"""The name of the file that `make dist` builds."""


def install_commands(extra: str, *, released: bool = RELEASED) -> tuple[str, ...]:
    """Shell commands, each of which installs this version with an extra.

    Args:
        extra: A name of `[project.optional-dependencies]` in pyproject.toml.
        released: Whether the package index has this version.

    Returns:
        One command for a released version. Otherwise the command for the top folder of a checkout, then the
        command for the folder that holds the wheel.
    """
    sources = (PROJECT,) if released else (".", f"./{WHEEL}")
    return tuple(f"pip install '{source}[{extra}]'" for source in sources)


def install_hint(extra: str, *, released: bool = RELEASED) -> str:
    """What to run to get an extra, as one line for the hint of an error.

    Args:
        extra: As for :func:`install_commands`.
        released: As for :func:`install_commands`.
    """
    commands = install_commands(extra, released=released)
    if released:
        return commands[0]
    checkout, wheel = commands
    return f"run {checkout} in a checkout, or {wheel} beside the wheel"
