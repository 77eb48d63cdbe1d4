"""What decides which plan a command makes, as words of a command line: a saved plan has them, and is recomputed with them."""

import shlex
from collections.abc import Sequence
from typing import Final

import click
from msgspec import Struct
from msgspec.structs import replace

from reconciler.app.requests import PlanLimits, RecordSource
from reconciler.cli.options.plan import limit_options, source_options
from reconciler.errors import ConfigError, PlanRefused, UsageError
from reconciler.quota.entity_forms import entity_text

_GUARDS: Final = ("max", "allow")
"""Beginnings of the names of options that can open a guard."""

_DEFAULTS: Final = PlanLimits()


class Selection(Struct, frozen=True, kw_only=True):
    """The paths and options of a plan."""

    paths: tuple[str, ...]
    limits: PlanLimits
    sources: RecordSource

    @property
    def words(self) -> tuple[str, ...]:
        """The words that select the same plan, without options that have their default; what validates it selects nothing."""
        words: list[str] = ["--no-inventory"] if self.sources.no_inventory else []
        for field in PlanLimits.__struct_fields__:
            value, name = getattr(self.limits, field), f"--{field.replace('_', '-')}"
            if value == getattr(_DEFAULTS, field) or field == "validate":
                continue
            if isinstance(value, tuple):
                words += [word for entity in value for word in (name, entity_text(entity))]
            else:
                words += [name] if value is True else [name, str(value)]
        return (*words, *(("--", *self.paths) if self.paths else ()))


def saved_selection(
    words: Sequence[str], typed: Selection, *, location: str, is_asked: bool
) -> Selection:
    """Return the selection of a saved plan.

    A file opens no guard by itself: where nobody is asked, the options that open one are typed again.

    Args:
        words: The words in the file.
        typed: What was typed with the file.
        location: Name of the file.
        is_asked: Whether a person confirms the plan.

    Raises:
        ConfigError: The words are no selection.
        UsageError: Another selection was typed.
        PlanRefused: The selection opens a guard, nobody is asked, and the options were not typed.
    """
    if typed.words and typed.words != tuple(words):
        raise UsageError(
            f"{location} was made with {shlex.join(words) or 'no path and no option'}, not with {shlex.join(typed.words)}",
            hint="type the same paths and options, or none",
        )
    try:
        selection: Selection = _parser.main(list(words), standalone_mode=False, prog_name="plan")
    except (click.ClickException, UsageError) as error:
        raise ConfigError(
            f"its selection cannot be read: {error}", location=location, hint="plan again"
        ) from error
    guards = [w for w in selection.words if w.startswith("--") and w[2:].startswith(_GUARDS)]
    if guards and not typed.words and not is_asked:
        raise PlanRefused(
            f"the saved plan has options of guards: {' '.join(guards)}",
            hint=f"to confirm without a question, type its options again: {shlex.join(words)}",
        )
    return replace(selection, limits=replace(selection.limits, validate=typed.limits.validate))


@click.command(add_help_option=False)
@click.argument("paths", nargs=-1)
@source_options
@limit_options
def _parser(paths: tuple[str, ...], sources: RecordSource, limits: PlanLimits) -> Selection:
    return Selection(paths=paths, limits=limits, sources=sources)
