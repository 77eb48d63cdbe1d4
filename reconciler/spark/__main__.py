"""``python -m reconciler.spark JOB --lake URI …``, and the main file for spark-submit. The result is JSON on stdout."""

import json
import sys
from collections.abc import Sequence

from reconciler.base.escaping import escaped
from reconciler.base.output_text import json_text, output_text
from reconciler.errors import KquotaError
from reconciler.evidence.spark import command_line
from reconciler.evidence.spark.runtime import job_runner


def main(words: Sequence[str]) -> int:
    """Run one job and return its exit code."""
    try:
        command = command_line.parsed(words)
        result = job_runner.run(command.job, command.lake, command.session, command.settings)
    except KquotaError as error:
        sys.stderr.write(output_text(f"error: {escaped(str(error))}\n"))
        if error.hint:
            sys.stderr.write(output_text(f"hint: {escaped(error.hint)}\n"))
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write(
            output_text("interrupted; units that were committed stay, others are as before\n")
        )
        return 130
    text = json_text(json.dumps(job_runner.document(result), indent=2) + "\n")
    if command.output is None:
        sys.stdout.write(output_text(text))
    else:
        command.output.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
