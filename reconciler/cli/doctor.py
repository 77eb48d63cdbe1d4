"""``kquota doctor``: one question after the other, from the network to the rights; each answer says what to do."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from reconciler.cli.console import Console
from reconciler.cli.exits import Exit
from reconciler.cli.options import Where, format_option, where_options

if TYPE_CHECKING:
    from reconciler.cli.checks import Check
    from reconciler.render.documents import Json

HELP: Final = """Whether everything works: reachability, TLS, SASL, versions, rights, callback, records, clock.

Nothing is changed. Every line that is not ok says what to do. Exit code 1 if something does not work.

\b
Example:
  kquota doctor --cluster prod
  kquota doctor --bootstrap-server broker1:9093 --command-config planner.properties"""

_SIGNS: Final = {
    "ok": ("ok", "green"),
    "warning": ("warning", "yellow"),
    "failed": ("FAILED", "red"),
}


@click.command(help=HELP)
@where_options()
@format_option("text", "json")
@click.pass_obj
def doctor(console: Console, *, where: Where, output: str) -> Exit:
    """Run the checks of each cluster; a failed one does not stop the others where they can still say something."""
    from reconciler.cli import checks
    from reconciler.cli.running import run
    from reconciler.cli.where import targets

    found = {target.shown: run(checks.run_all(console, target)) for target in targets(where)}
    if output == "json":
        _json(console, found)
    else:
        for name, made in found.items():
            _text(console, name, made)
    failed = any(check.status == "failed" for made in found.values() for check in made)
    return Exit.ERROR if failed else Exit.DONE


def _text(console: Console, name: str, made: "Sequence[Check]") -> None:
    from reconciler.render.names import escaped
    from reconciler.render.table import Style

    style = Style(colour=console.colour)
    console.fact(style.paint(escaped(name), "bold"))
    width = max(len(check.name) for check in made)
    for check in made:
        word, colour = _SIGNS[check.status]
        sign = style.paint(f"{word:<7}", colour)
        console.fact(f"  {sign}  {check.name:<{width}}  {escaped(check.found)}")
        if check.todo:
            console.fact(f"           -> {escaped(check.todo)}")


def _json(console: Console, found: "Mapping[str, Sequence[Check]]") -> None:
    from reconciler.render.documents import dump

    clusters: list[Json] = [
        {
            "cluster": name,
            "checks": [
                {"name": one.name, "status": one.status, "found": one.found, "todo": one.todo}
                for one in made
            ],
        }
        for name, made in found.items()
    ]
    console.fact(dump({"kind": "kquota-doctor", "format": 1, "clusters": clusters}))
