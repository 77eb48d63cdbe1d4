"""``kquota`` and ``python -m reconciler``: run the command line with signal handlers from start to end.

While a command runs, a signal cancels it and the command reports its outcome (``app.event_loop``). Before its modules are
loaded and after its end, a signal only sets the exit code. It is 130 for Ctrl-C, SIGTERM and SIGHUP, so that a supervisor
does not see a death by signal. A signal that the parent process ignores (``nohup``) stays ignored.
"""

import os
import signal
import sys
from types import FrameType
from typing import Final, NoReturn

INTERRUPTED: Final = 130
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> NoReturn:
    """Run the command line of this process and exit with its code."""
    handled = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    _answer(handled, _leave)
    from reconciler.cli.main import main as run  # noqa: PLC0415 - a signal may arrive during the import

    _answer(handled, signal.default_int_handler)  # asyncio replaces only this handler
    try:
        code = run()
    except KeyboardInterrupt:
        code = INTERRUPTED  # A second signal, during the report of the first.
    _answer(handled, _leave)
    sys.exit(code)


def _answer(numbers: list[signal.Signals], handler: "signal._HANDLER") -> None:
    for number in numbers:
        _ = signal.signal(number, handler)


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
