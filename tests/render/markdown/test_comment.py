"""A comment as code hosts render it: no text leaves its cell, its line or its code, for any name."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec.structs import replace

from reconciler.base.escaping import escaped
from reconciler.quota.entity import entity, entity_text
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.results.report import PairOutcome, PairVisibility, RunOrigin, ValidationResult
from reconciler.quota.state import Rejected, Unknown
from reconciler.render.markdown.comment import CommentContext, cluster_option
from reconciler.render.markdown.outcome import outcome_markdown
from reconciler.render.markdown.plan import plan_markdown
from tests.render.previews import RATE, empty, result

COMMONMARK = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
"""CommonMark with the tables and the strikethrough of GitHub's dialect; HTML passes through, as on code hosts."""

OURS = {
    "h3",
    "p",
    "strong",
    "code",
    "ul",
    "li",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "br",
    "sub",
    "a",
}
RUN, PAGE = "https://ci.example/run/1", "https://ci.example/page/2"
CONTEXT = CommentContext(label="prod", run_url=RUN, artifact_url=PAGE)

MARKUP = [
    "| a | b |\n|-|-|",
    "`code`",
    "``",
    "**bold**",
    "_it_",
    "__it__",
    "~~gone~~",
    "[a](http://evil.example)",
    "![a](x)",
    "<b>",
    "</td></tr></table><h1>x",
    "<!--",
    "-->",
    "&lt;b&gt;",
    "&#60;b&#62;",
    "\\",
    "\\|",
    "# heading",
    "> quote",
    "- item",
    "1. item",
    "    code",
    "```\nfence",
    "===",
    "---",
    "http://evil.example",
    "www.evil.example",
    "a@evil.example",
    "<http://evil.example>",
    "[x]: http://evil.example",
    "\r\n\r\n# x",
    "\u2028",
    "\u202e",
    "</code>",
    "<br>",
    "<script>",
    "<details>",
    "$x$",
    "@team",
    "#12",
    "[^1]",
    "| |",
]
TEXTS = st.lists(
    st.one_of(
        st.sampled_from(MARKUP), st.text(alphabet="`|\\<>*_[]()#&;!~-+=. \na1:/@", max_size=6)
    ),
    min_size=1,
    max_size=4,
).map("".join)


@dataclass
class Page(HTMLParser):
    """A browser's reading of the finished page: its elements, and the text of each cell."""

    elements: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    text: str = ""
    lists: int = 0

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._in_cell = False

    def handle_starttag(self, tag, attrs):
        self.elements.add(tag)
        self.links += [value for name, value in attrs if name in {"href", "src"}]
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")
            self._in_cell = True
        if tag == "br" and self._in_cell:
            self.rows[-1][-1] += "\n"
        self.lists += tag == "li"

    def handle_endtag(self, tag):
        if tag in {"td", "th"}:
            self._in_cell = False

    def handle_data(self, data):
        self.text += data
        if self._in_cell:
            self.rows[-1][-1] += data

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")

    def handle_decl(self, decl):
        raise AssertionError(f"a declaration: {decl}")


def page(text: str) -> Page:
    new_page = Page()
    new_page.feed(COMMONMARK.render(text))
    new_page.close()
    return new_page


def change(name: str, note: str = "") -> QuotaChange:
    return QuotaChange(
        entity=entity(user=name), key=RATE, before=None, after=5.0, cause=Cause.CREATE, note=note
    )


@given(TEXTS, TEXTS, TEXTS)
def test_texts_of_a_plan_cannot_break_out_of_their_cell_or_line(name, sentence, title):
    changes = (change(name, note=sentence), change("plain"))
    preview = replace(
        empty(),
        plan=replace(empty().plan, changes=changes),
        verdict=ValidationResult(
            source="broker",
            rejections={changes[0].entity: Rejected(code=42, name=sentence, message=sentence)},
        ),
        warnings=(sentence,),
        origin=RunOrigin(cluster=title, commit=name),
    )
    displayed_page = page(plan_markdown(preview, context=replace(CONTEXT, label=title)))
    assert displayed_page.elements <= OURS
    assert set(displayed_page.links) == {RUN, PAGE}
    head, evil, plain = displayed_page.rows
    assert head == ["Client and key", "Now", "New", "Effect"]
    assert evil[0].split("\n") == [escaped(entity_text(changes[0].entity)), str(RATE)]
    assert evil[3].strip() == escaped(sentence).strip()
    assert plain == ["user=plain\nproducer_byte_rate", "no limit", "5 B/s", ""]
    assert displayed_page.lists == 2
    assert escaped(title).strip() in displayed_page.text


@given(TEXTS, TEXTS)
def test_texts_of_an_outcome_cannot_break_out_of_their_cell_or_line(name, sentence):
    lost = PairOutcome(
        change=change(name), result=Unknown(reason=sentence), visibility=PairVisibility.UNCHECKED
    )
    outcome = replace(
        result(), pairs=(lost,), failure=sentence, origin=RunOrigin(author=name, commit=name)
    )
    displayed_page = page(outcome_markdown(outcome, context=replace(CONTEXT, file=name)))
    assert displayed_page.elements <= OURS
    assert set(displayed_page.links) == {RUN, PAGE}
    _, row = displayed_page.rows
    assert row[0].split("\n") == [escaped(entity_text(entity(user=name))), str(RATE)]
    assert row[3].startswith("UNKNOWN")
    assert escaped(sentence).strip() in row[3]
    assert displayed_page.lists == 0


def test_the_renderer_of_the_test_detects_unescaped_markup():
    """Shows that the two tests above can fail."""
    displayed_page = page("| a | b |\n|-|-|\n| x | y <b>z</b> |\n\n- [a](http://evil.example)\n")
    assert displayed_page.rows == [["a", "b"], ["x", "y z"]]
    assert displayed_page.elements >= {"b", "li", "a"}
    assert displayed_page.links == ["http://evil.example"]


@pytest.mark.parametrize("name", ["", "prod; reboot", "$(reboot)", "a b", "-x", "Prod", "a" * 254])
def test_only_a_plain_cluster_name_is_in_a_command(name):
    assert cluster_option(name) is None


def test_a_plain_cluster_name_is_an_option():
    assert cluster_option("eu-1.prod") == " --cluster eu-1.prod"
