"""The same work for every cluster that was meant: one that fails does not stop the others."""

from collections.abc import Callable, Sequence

from reconciler.cli.context.cluster_targets import ClusterTarget
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode, report_error, worst
from reconciler.errors import Interrupted, KquotaError


def for_each(
    console: Console, targets: Sequence[ClusterTarget], work: Callable[[ClusterTarget], ExitCode]
) -> ExitCode:
    """The worst of the exit codes.

    With one cluster its error goes on to the frame of the program. With several, each is reported at once under the
    cluster's name, and the next one follows; only a wish to stop ends the round.

    Args:
        console: Where errors go.
        targets: The clusters.
        work: What to do with one.
    """
    if len(targets) == 1:
        return work(targets[0])
    codes: list[ExitCode] = []
    for target in targets:
        console.note(f"== {target.display_name}")
        try:
            codes.append(work(target))
        except Interrupted:
            raise
        except KquotaError as error:
            codes.append(report_error(console, error))
    return worst(codes)
