"""Shared by the commands that post to a code host: their options, and how they end if the host refuses."""

from collections.abc import Callable, Coroutine
from typing import Any, Final

from msgspec import Struct

from reconciler.cli.framework.commands import flag, option
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.errors import ForgeError, KquotaError


class HostApi(Struct, frozen=True):
    """Where a host's API is by default, and the environment variable that overrides it."""

    address: str
    variable: str

    def option(self) -> Callable[[Any], Any]:
        """Return ``--api-url``."""
        return option(
            "--api-url URL",
            f"Address of the API  [env: {self.variable}].",
            default=self.address,
            envvar=self.variable,
        )


GITHUB: Final = HostApi("https://api.github.com", "GITHUB_API_URL")
GITLAB: Final = HostApi("https://gitlab.com/api/v4", "CI_API_V4_URL")

required_option: Final = flag("--required", "Exit 1 if the code host cannot be reached or refuses.")

details_option: Final = option("--details-url URL", "URL of the full text, for a link.", default="")


def repository_option(*, required: bool) -> Callable[[Any], Any]:
    """Return ``--repo`` of GitHub; "" if it is neither required nor given."""
    return option(
        "--repo OWNER/NAME",
        "Repository  [env: GITHUB_REPOSITORY].",
        # A default of None would count as a value, so a required option has none.
        **({"required": True} if required else {"default": ""}),
        envvar="GITHUB_REPOSITORY",
    )


project_option: Final = option(
    "--project ID",
    "Number or path of the project  [env: CI_PROJECT_ID].",
    default="",
    envvar="CI_PROJECT_ID",
)
"""``--project`` of GitLab; "" if it is not given."""


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
