"""``kquota``, ``python -m reconciler`` and ``kafka-client-quotas``: run a command line with signal handlers from start to end.

While a command runs, a signal cancels it and the command reports its outcome (``app.event_loop``). Before its modules are
loaded and after its end, a signal only sets the exit code. It is 130 for Ctrl-C, SIGTERM and SIGHUP, so that a supervisor
does not see a death by signal: not while the interpreter ends either, when a signal is ignored. A signal that the parent
process ignores (``nohup``) stays ignored.
"""

import atexit
import gc
import importlib
import os
import signal
import sys
from types import FrameType
from typing import Final, NoReturn

INTERRUPTED: Final = 130
NEW_OBJECTS: Final = 20_000
"""New objects after which Python looks for cycles. Commands build large values and hardly any cycle: the default of 700 costs
up to a tenth of their time. Loops release their memory by counting references, so that this number costs them nothing.
"""

_COMPLETIONS: Final = {"_KQUOTA_COMPLETE", "_KAFKA_CLIENT_QUOTAS_COMPLETE"}
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> NoReturn:
    """Run ``kquota`` in this process and exit with its code."""
    _run("reconciler.cli.main")


def client_quotas() -> NoReturn:
    """Run ``kafka-client-quotas`` in this process and exit with its code."""
    _run("reconciler.cli.client_quotas")


def _run(module: str) -> NoReturn:
    handled = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    _ = atexit.register(_answer, handled, signal.SIG_IGN)  # The first function is called last.
    _answer(handled, _leave)
    try:
        run = importlib.import_module(module).main  # a signal may arrive during the import
        gc.freeze()
        gc.set_threshold(NEW_OBJECTS, 10, 10)
    except ModuleNotFoundError as error:
        sys.exit(_refuse_incomplete(error))
    if (
        not _COMPLETIONS & os.environ.keys()
    ):  # A completion prints nothing into the prompt when it is interrupted.
        _answer(handled, signal.default_int_handler)  # asyncio replaces only this handler of Ctrl-C
    try:
        code = run()
    except KeyboardInterrupt:
        code = INTERRUPTED  # A second signal, during the report of the first.
    _answer(handled, _leave)
    gc.disable()  # The last collection, of all that the command built, would only delay the end.
    # After `python -m`, CPython ends with SIGINT if a Ctrl-C interrupted code from a text, such as the methods of a
    # dataclass, although the command handled it. Other code from a text resets that.
    exec("")  # noqa: S102 - constant
    sys.exit(code)


def _refuse_incomplete(error: ModuleNotFoundError) -> int:
    """Print that a package is missing, which the library does not need; return the exit code."""
    from reconciler.base.installation import incomplete_installation
    from reconciler.cli.framework.console import Console

    failure = incomplete_installation(error)
    if failure is None:
        raise error
    console = Console.of_process()
    console.error(failure.message)
    console.hint(failure.hint)
    return failure.exit_code


def _answer(numbers: list[signal.Signals], handler: "signal._HANDLER") -> None:
    for number in numbers:
        _ = signal.signal(number, handler)


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
