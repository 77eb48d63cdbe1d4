"""``kquota`` and ``python -m reconciler``: signals from the first line to the last, around the command line.

While a command runs, a signal cancels it and the command says what was done (``cli.running``). Before its modules are
loaded and after its last line there is nothing to say, but the exit code is 130 all the same, for Ctrl-C, SIGTERM and
SIGHUP alike: a supervisor must not see a death by signal. A signal that the parent ignores (``nohup``) stays ignored.
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
    from reconciler.cli.main import main as run  # noqa: PLC0415 - a signal may come while it is imported

    _answer(handled, signal.default_int_handler)  # asyncio takes over this very handler only
    try:
        code = run()
    except KeyboardInterrupt:
        code = INTERRUPTED  # A second signal, while the first was reported.
    _answer(handled, _leave)
    sys.exit(code)


def _answer(numbers: list[signal.Signals], handler: "signal._HANDLER") -> None:
    for number in numbers:
        _ = signal.signal(number, handler)


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
