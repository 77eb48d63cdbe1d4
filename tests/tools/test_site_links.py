"""Links of the documentation site: out of docs/ to the code host, others as they are; every page is in the navigation."""

import re
from pathlib import Path

import pytest

from tools.site_links import with_host_links

ROOT = Path(__file__).parents[2]
HOST = "https://host.example/kquota"


@pytest.mark.parametrize(
    ("source", "link", "address"),
    [
        ("policy.md", "../SECURITY.md#threat-model", f"{HOST}/blob/main/SECURITY.md#threat-model"),
        (
            "adr/send-order.md",
            "../../tests/how-we-know.md",
            f"{HOST}/blob/main/tests/how-we-know.md",
        ),
        ("adr/send-order.md", "../semantics.md#guards", "../semantics.md#guards"),
        ("policy.md", "drift.md", "drift.md"),
    ],
)
def test_a_link_out_of_the_folder_of_the_pages_leads_to_the_code_host(
    source: str, link: str, address: str
) -> None:
    assert with_host_links(f"see [it]({link})", source, HOST) == f"see [it]({address})"


def test_every_page_is_in_the_navigation_of_the_site_once() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    navigation = re.findall(r"^ +- .+: (\S+\.md)$", text, re.MULTILINE)
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert sorted(navigation) == sorted({*pages, "adr/README.md"})
