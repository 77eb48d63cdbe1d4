"""Commands in hints, completed with the options of the run that prints them: a person runs them as they are printed."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

_MENTION: Final = re.compile(r"(?<![\w./-])kquota((?: [a-z][a-z-]{0,30}){1,3})")

PLACES: Final = ("--bootstrap-server", "--command-config", "--project", "--cluster")
"""The options that say which cluster a command is about."""


def typed_places(context: click.Context) -> dict[str, str]:
    """Return the options of a command line that say which cluster it is about, also those from the environment."""
    values = {flag: context.params.get(flag[2:].replace("-", "_")) for flag in PLACES}
    return {flag: str(value) for flag, value in values.items() if isinstance(value, str | Path)}


def completed(text: str, places: Mapping[str, str]) -> str:
    """Return a hint whose commands have these options, as far as they take them and the hint has none of them."""
    context = click.get_current_context(silent=True)
    if context is None or not places:
        return text
    root = context.find_root()

    def complete(mention: re.Match[str]) -> str:
        words, command, depth = mention[1].split(), root.command, 0
        while isinstance(command, click.Group) and depth < len(words):
            named = command.get_command(root, words[depth])
            if named is None:
                break
            command, depth = named, depth + 1
        accepted = {name for parameter in command.params for name in parameter.opts}
        options = [
            word
            for flag, value in places.items()
            if depth and flag in accepted and flag not in text
            for word in (flag, value)
        ]
        return " ".join(["kquota", *words[:depth], *map(shlex.quote, options), *words[depth:]])

    return _MENTION.sub(complete, text)
