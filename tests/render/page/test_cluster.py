"""The content of a page about clusters: what Python computed, section by section."""

import re

import pytest

from reconciler.app.html_page import page_files
from tests.render.pages import page
from tests.render.previews import golden


@pytest.mark.golden
def test_a_page_equals_the_golden_file():
    _, _, text = page().replace(page_files().script, "").partition("<body>")
    golden("page.html", re.sub(r"(?=<(?:section|tr|td|p|dl|div|footer|nav|header)\b)", "\n", text))
