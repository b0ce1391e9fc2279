"""Convert docstrings, written for editors in a little Markdown, to the markup of Sphinx's autodoc.

This Sphinx extension rewrites the code spans and the indented examples of every docstring, and
leaves out names that are public only because other packages of Lockfast use them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
INTERNAL = {
    *("beyond_its_block", "capacity", "enter_block", "forget", "give_up", "granted", "keep"),
    *("options", "weight", "from_text", "to_text"),
}


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension; Sphinx calls this name."""
    app.connect("autodoc-process-docstring", lambda *event: rewrite(event[-1]))
    app.connect("autodoc-skip-member", lambda *event: True if event[2] in INTERNAL else None)
    return {"parallel_read_safe": True}


def rewrite(lines: list[str]) -> None:
    """Change the lines of a docstring in place."""
    found: list[str] = []
    for number, line in enumerate(lines):
        before = lines[number - 1] if number else ""
        is_example = line.startswith("    ") and not before.strip() and not _is_inside(found)
        if is_example:
            found += ["::", ""]
        found.append(line if line.startswith("    ") else _escaped(line))
    lines[:] = found


def _is_inside(found: list[str]) -> bool:
    """Whether the last non-blank line is indented, or begins an example or a list."""
    last = next((line for line in reversed(found) if line.strip()), "")
    return last.startswith((" ", "- ", "::"))


def _escaped(line: str) -> str:
    """Return the line with its code spans converted, and with no asterisk taken for emphasis."""
    parts = SPAN.split(line)
    return "".join(
        f"``{part}``" if number % 2 else part.replace("*", r"\*")
        for number, part in enumerate(parts)
    )
