"""HTML pages: reads the files of ``render/page`` and passes them to the pure renderer."""

from collections.abc import Sequence
from importlib.resources import files

from reconciler import __version__
from reconciler.base.clock import SystemClock
from reconciler.render.html.facts import ClusterPage
from reconciler.render.html.frame import FRAME
from reconciler.render.html.page import SCRIPTS, STYLES, TEMPLATE, PageFiles, page_html


def joined_files(*names: str) -> str:
    """Return the texts of files of ``render/page``, as installed with the package."""
    folder = files("reconciler.render").joinpath("page")
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)


def page_files() -> PageFiles:
    """Return the parts of every page."""
    return PageFiles(
        frame=joined_files(FRAME),
        template=joined_files(TEMPLATE),
        style=joined_files(*STYLES),
        script=joined_files(*SCRIPTS),
    )


def page_of(clusters: Sequence[ClusterPage], *, page: str) -> str:
    """Return a page about these clusters, with the current time.

    Args:
        clusters: The clusters; the reader selects one of several.
        page: ``plan`` or ``report``.
    """
    return page_html(
        clusters, page_files(), page=page, made_at=SystemClock().now(), tool_version=__version__
    )
