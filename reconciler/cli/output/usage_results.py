"""Reports of use on standard output, in the format that was asked for."""

from reconciler.cli.framework.console import Console
from reconciler.cli.output.plans import style_of
from reconciler.usage.reports.usage import UsageReport


def show(console: Console, report: UsageReport, output: str) -> None:
    """Print a report.

    Args:
        console: Where.
        report: What.
        output: ``text``, ``json`` or ``markdown``.
    """
    if output == "json":
        from reconciler.evidence.render.report_json import report_document
        from reconciler.render.json_values import dump

        console.fact(dump(report_document(report)).rstrip("\n"))
        return
    from reconciler.evidence.render.report_text import report_markdown, report_text

    text = report_markdown(report) if output == "markdown" else report_text(report, style=style_of(console))  # fmt: skip
    console.fact(text.rstrip("\n"))
