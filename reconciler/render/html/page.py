"""One self-contained HTML page: a template, a style, a script and one block of JSON that cannot be escaped from.

Pure: the caller reads the files of ``page/``. No name becomes markup here or in the script, which sets text only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.base.compact_json import compact
from reconciler.quota.entity import LEVEL_NAMES
from reconciler.quota.keys import COLUMNS, RULES
from reconciler.render.html.facts import ClusterPage, cluster_facts
from reconciler.render.html.frame import fill_template, page_frame
from reconciler.render.json_values import Json
from reconciler.render.lookup_table import PageLookup
from reconciler.render.units import PER_BROKER, instant

KIND: Final = "kquota-page"
FORMAT: Final = 1

TEMPLATE: Final = "page.html"
STYLES: Final = ("page.css", "tables.css", "print.css")
SCRIPTS: Final = ("facts.js", "resolve.js", "tables.js", "lookup.js", "sections.js", "main.js")
"""Files of ``page/`` in the order in which they are joined; the scripts share one scope."""

_ENCODE: Final = compact()

# `</script>` and `<!--` end or change a script block for HTML whatever the script says; JSON may write these three otherwise.
_UNSAFE: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFiles:
    """The parts of every page, from ``page/``."""

    frame: str
    template: str  # its body: HTML with `{{facts}}` and `{{script}}`
    style: str
    script: str  # JavaScript; runs in a separate scope


def page_html(
    cluster_pages: Sequence[ClusterPage],
    files: PageFiles,
    *,
    page: str,
    made_at: float,
    tool_version: str,
) -> str:
    """Return a page.

    Args:
        page: ``plan`` or ``report``.
        made_at: Creation time, in seconds since the epoch.
    """
    document = page_document(cluster_pages, page=page, made_at=made_at, tool_version=tool_version)
    # In Python rather than in the page: one scope for all files, nothing left on `window`.
    script = f'(() => {{\n"use strict";\n{files.script}\n}})();\n'
    names = ", ".join(cluster_page.name for cluster_page in cluster_pages)
    parts = {"facts": _ENCODE(document).translate(_UNSAFE), "script": script}
    return page_frame(
        files.frame,
        title=f"Kafka quotas: {page} for {names}",
        style=files.style,
        body=fill_template(files.template.rstrip(), parts),
        script=script,
    )


def page_document(
    cluster_pages: Sequence[ClusterPage], *, page: str, made_at: float, tool_version: str
) -> dict[str, Json]:
    """Return the content of a page; equal content gives equal documents."""
    lookup = PageLookup()
    clusters: list[Json] = [cluster_facts(cluster_page, lookup) for cluster_page in cluster_pages]
    return {
        "kind": KIND,
        "format": FORMAT,
        "page": page,
        "madeAt": instant(made_at),
        "toolVersion": tool_version,
        "perBroker": PER_BROKER,
        "keys": [
            {"name": str(key), "unit": RULES[key].unit, "onIp": RULES[key].on_ip} for key in COLUMNS
        ],
        "levels": ["unlimited", *LEVEL_NAMES.values()],
        "clusters": clusters,
        **lookup.document(),
    }
