"""How ``kquota post`` ends: a host that refuses or does not answer is a warning, unless posting is required."""

from collections.abc import Coroutine
from typing import Any

from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.errors import ForgeError, KquotaError


def warn_of_failure(console: Console, error: KquotaError, *, required: bool) -> ExitCode:
    """Print an error of the code host as a warning, unless posting is required.

    Raises:
        KquotaError: Posting is required, or the error does not come from the code host.
    """
    if required or not isinstance(error, ForgeError):
        raise error
    console.warning(f"posting failed: {error.message}")
    console.hint(error.hint)
    return ExitCode.DONE


def post_to_host(
    console: Console, posting: Coroutine[Any, Any, None], *, required: bool
) -> ExitCode:
    """Post, and print an error of the code host as a warning, unless posting is required.

    Raises:
        KquotaError: Posting is required, or the error does not come from the code host.
    """
    from reconciler.app.event_loop import run

    try:
        run(posting)
    except KquotaError as error:
        return warn_of_failure(console, error, required=required)
    return ExitCode.DONE
