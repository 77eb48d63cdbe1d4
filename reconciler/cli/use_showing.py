"""Reports of use on standard output, in the format that was asked for."""

from reconciler.cli.console import Console
from reconciler.cli.showing import style_of
from reconciler.usage.reports import UsageReport


def show(console: Console, report: UsageReport, output: str) -> None:
    """Print a report.

    Args:
        console: Where.
        report: What.
        output: ``text``, ``json`` or ``markdown``.
    """
    if output == "json":
        from reconciler.render.documents import dump
        from reconciler.render.use_json import report_document

        console.fact(dump(report_document(report)).rstrip("\n"))
        return
    from reconciler.render.use_text import report_markdown, report_text

    text = report_markdown(report) if output == "markdown" else report_text(report, style=style_of(console))  # fmt: skip
    console.fact(text.rstrip("\n"))
