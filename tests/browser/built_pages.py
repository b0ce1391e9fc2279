"""What a page of the site links to and loads, read from its HTML."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}


@dataclass
class BuiltPage:
    """One file of the site."""

    path: Path
    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)


def read(path: Path) -> BuiltPage:
    """Read one file of the site."""
    reader = _Reader(BuiltPage(path))
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.page


class _Reader(HTMLParser):
    def __init__(self, page: BuiltPage) -> None:
        super().__init__()
        self.page = page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if mark := named.get("id"):
            self.page.anchors.add(mark)
        if tag == "a" and (target := named.get("href")):
            self.page.links.append(target)
        if tag in LOADED and (target := named.get(LOADED[tag])):
            self.page.loads.append(target)
