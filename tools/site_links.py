"""Links of the pages for the documentation site: what lies outside of ``docs/`` is on the code host. A hook of MkDocs."""

import posixpath
import re
from collections.abc import Mapping
from typing import Any, Final, Protocol

_LINK: Final = re.compile(r"\]\((\.\./[^)\s]+)\)")


class SourceFile(Protocol):
    """The file of a page, as MkDocs knows it."""

    @property
    def src_uri(self) -> str:
        """The path below ``docs/``."""
        ...


class SitePage(Protocol):
    """A page, as MkDocs knows it."""

    @property
    def file(self) -> SourceFile:
        """Its file."""
        ...


def on_page_markdown(
    markdown: str, *, page: SitePage, config: Mapping[str, Any], **_: object
) -> str:
    """Rewrite the links of a page; called by MkDocs.

    Args:
        markdown: Text of the page.
        page: Has the path of its file below ``docs/``.
        config: Has the address of the repository.
    """
    return with_host_links(markdown, page.file.src_uri, config["repo_url"])


def with_host_links(markdown: str, source: str, repository: str) -> str:
    """Return a page whose links out of ``docs/`` are addresses.

    Args:
        markdown: Text of the page.
        source: Path of the page below ``docs/``.
        repository: Address of the repository on the code host.
    """
    folder = posixpath.dirname(f"docs/{source}")

    def address(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match[1]))
        return match[0] if path.startswith("docs/") else f"]({repository}/blob/main/{path})"

    return _LINK.sub(address, markdown)
