"""Shared by the commands that post to a code host: their options, and how they end if the host refuses."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

import click

from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.errors import ForgeError, KquotaError


@dataclass(frozen=True, slots=True)
class HostApi:
    """Where a host's API is by default, and the environment variable that overrides it."""

    address: str
    variable: str

    def option(self) -> Callable[[Any], Any]:
        """Return ``--api-url``."""
        return click.option(
            "--api-url",
            default=self.address,
            envvar=self.variable,
            show_default=True,
            metavar="URL",
            help=f"Address of the API  [env: {self.variable}].",
        )


GITHUB: Final = HostApi("https://api.github.com", "GITHUB_API_URL")
GITLAB: Final = HostApi("https://gitlab.com/api/v4", "CI_API_V4_URL")

required_option: Final = click.option(
    "--required", is_flag=True, help="Exit 1 if the code host cannot be reached or refuses."
)

details_option: Final = click.option(
    "--details-url", default="", metavar="URL", help="URL of the full text, for a link."
)


def label_option(own: str) -> Callable[[Any], Any]:
    """Return ``--label``; ``own`` is what each label has of its own."""
    return click.option(
        "--label",
        default="",
        metavar="NAME",
        help=f"Name of the environment; each label has its own {own}.",
    )


def author_option(posts: str) -> Callable[[Any], Any]:
    """Return ``--author`` of these posts."""
    return click.option(
        "--author",
        default="",
        metavar="LOGIN",
        help=f"Author of kquota's {posts} if the token is that of another app, such as my-app[bot].",
    )


def _presence(*, required: bool) -> dict[str, Any]:
    """Return click's settings; a default of ``None`` would count as a value, so a required option has none."""
    return {"required": True} if required else {"default": ""}


def repository_option(*, required: bool) -> Callable[[Any], Any]:
    """Return ``--repo`` of GitHub; "" if it is neither required nor given."""
    return click.option(
        "--repo",
        **_presence(required=required),
        envvar="GITHUB_REPOSITORY",
        metavar="OWNER/NAME",
        help="Repository  [env: GITHUB_REPOSITORY].",
    )


def project_option(*, required: bool) -> Callable[[Any], Any]:
    """Return ``--project`` of GitLab; "" if it is neither required nor given."""
    return click.option(
        "--project",
        **_presence(required=required),
        envvar="CI_PROJECT_ID",
        metavar="ID",
        help="Number or path of the project  [env: CI_PROJECT_ID].",
    )


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
