"""HTML pages: reads the files of ``render/page`` and passes them to the pure renderer."""

from collections.abc import Sequence
from importlib.resources import files

from reconciler import __version__
from reconciler.base.clock import SystemClock
from reconciler.render.page.cluster import ClusterPage, clusters_html
from reconciler.render.page.writer import FRAME, SCRIPT, STYLES, PageFiles


def page_files() -> PageFiles:
    """Return the constant parts of every page, as installed with the package."""
    folder = files("reconciler.render").joinpath("page")
    texts = [folder.joinpath(name).read_text(encoding="utf-8") for name in (FRAME, SCRIPT, *STYLES)]
    frame, script, *styles = texts
    return PageFiles(frame=frame, script=script, style="".join(styles))


def page_of(clusters: Sequence[ClusterPage]) -> str:
    """Return a page about these clusters, with the current time."""
    return clusters_html(
        clusters, page_files(), made_at=SystemClock().now(), tool_version=__version__
    )
