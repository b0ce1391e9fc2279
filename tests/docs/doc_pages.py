"""The pages of the documentation, and the code blocks in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT)
    for path in (ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").rglob("*.md"))
)

PYTHON = {"python"}
SHELL = {"sh", "console"}
SHOWN = {"text", "sql", "java", "toml", "yaml"}
"""Languages that are shown but not run. Whatever a reader could run is python, sh or console."""

MARKER = re.compile(r"<!-- (?P<word>compile only|prints)(?:: (?P<reason>.+))? -->")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, and where the text begins."""

    language: str
    text: str
    line: int
    marker: str = ""
    reason: str = ""


def blocks(page: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page, in their order."""
    lines = page.splitlines()
    start: int | None = None
    for number, line in enumerate(lines):
        if not line.lstrip().startswith("```"):
            continue
        if start is None:
            start = number
            continue
        marker = MARKER.fullmatch(lines[start - 1].strip()) if start else None
        yield Block(
            language=lines[start].strip().removeprefix("```"),
            text="\n".join(lines[start + 1 : number]),
            line=start + 2,
            marker=marker["word"] if marker else "",
            reason=(marker["reason"] or "") if marker else "",
        )
        start = None
