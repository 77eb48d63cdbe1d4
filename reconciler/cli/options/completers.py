"""Completers of options by name: what they call is imported only when a shell asks, as the commands are."""

import importlib
from collections.abc import Callable

import click
from click.shell_completion import CompletionItem

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def completer(name: str) -> Completer:
    """The function of this name in ``live_names``, for ``shell_complete=``."""

    def complete(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        module = importlib.import_module("reconciler.cli.live_names")
        function: Completer = getattr(module, name)
        return function(ctx, param, incomplete)

    return complete
