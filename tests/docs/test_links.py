"""Every link inside the documentation works, and every page can be reached."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from doc_pages import PAGES, ROOT

LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"`(?P<path>(?:src|tests|tools|docs|bench|examples)/[\w./-]*)`")
MODULE = re.compile(r"`(?P<path>(?:\w+/)+\w+\.py)`")


def links(page: Path) -> Iterator[str]:
    """Yield the targets of a page's links into this repository."""
    for found in LINK.finditer(FENCED.sub("", (ROOT / page).read_text(encoding="utf-8"))):
        if not found["target"].startswith(("https://", "http://", "mailto:")):
            yield found["target"]


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = FENCED.sub("", path.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_link_leads_somewhere(page):
    for target in links(page):
        name, _, anchor = target.partition("#")
        path = (ROOT / page).parent / name if name else ROOT / page

        assert path.exists(), f"{page} links to {target}"
        assert not anchor or anchor in anchors(path), f"{page} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_file_that_is_named_exists(page):
    text = FENCED.sub("", (ROOT / page).read_text(encoding="utf-8"))

    # The pages on migrating from other libraries also name files of those libraries.
    patterns = [FILE] if page.name.startswith("from-") else [FILE, MODULE]
    named = {one["path"] for pattern in patterns for one in pattern.finditer(text)}
    places = (ROOT, ROOT / "src" / "lockfast", ROOT / "challenge" / "src")
    missing = [one for one in named if not any((place / one).exists() for place in places)]

    assert missing == []


def test_every_page_is_in_the_index():
    index = ROOT / "docs" / "README.md"
    listed = {
        (index.parent / target.partition("#")[0]).resolve()
        for target in links(index.relative_to(ROOT))
    }

    pages = {(ROOT / page).resolve() for page in PAGES if page.parts[0] == "docs"}
    assert pages - listed - {index} == set()
