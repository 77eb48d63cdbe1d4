"""Reads an HTML page as a reader without scripts sees it, and checks that its tags are balanced."""

from html.parser import HTMLParser

VOID = {"meta", "link"}


class PageReader(HTMLParser):
    """The tags, attributes and texts of a page; the rows of its sections, each cell as its lines."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.texts: list[tuple[str, str]] = []
        self.sections: dict[str, list[list[list[str]]]] = {}
        self.rows: list[list[list[str]]] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "section":
            self.rows = self.sections[dict(attrs)["id"]] = []
        elif tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"}:
            self.rows[-1].append([])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.texts.append((self.open[-1], data))
            if {"td", "th"} & set(self.open):
                self.rows[-1][-1].append(data)

    def all_texts(self, tag: str) -> list[str]:
        """The texts directly in these elements."""
        return [text for name, text in self.texts if name == tag]

    def column(self, section: str, head: str) -> list[list[str]]:
        """The cells of a column of a section."""
        heads, *rows = self.sections[section]
        at = heads.index([head])
        return [row[at] for row in rows]

    def cells(self, section: str, client: str) -> dict[str, list[str]]:
        """The row of a client, by heading."""
        heads, *rows = self.sections[section]
        (cells,) = [row for row in rows if row[0][0] == client]
        return {head: cell for (head,), cell in zip(heads, cells, strict=True)}


def read_page(page: str) -> PageReader:
    """Read a page."""
    reader = PageReader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader
