"""Consoles for tests: two text streams, with a configurable answer to whether they are terminals."""

import io

from msgspec.structs import replace

from reconciler.cli.framework.console import Console


class Screen:
    """A console whose output can be read. `screen.console` is passed to the tested code."""

    def __init__(self, **changes: object) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()
        plain = Console(
            stdout=self.out,
            stderr=self.err,
            colour=False,
            err_colour=False,
            err_terminal=False,
            asks=False,
            width=100,
        )
        self.console = replace(plain, **changes)

    @property
    def facts(self) -> str:
        return self.out.getvalue()

    @property
    def words(self) -> str:
        return self.err.getvalue()
