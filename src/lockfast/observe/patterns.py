"""Names without what differs from one to the next: figures are kept per pattern, not per name.

A name is free text, and most hold an id: a label for each of them would fill the memory of
whoever counts, and tell things about customers. A pattern never holds a digit. What it cannot
see is an id of letters alone (`user:alice`): so whoever keeps patterns keeps a bounded number
of them, see `Patterns`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

LONGEST: Final = 80
"""The most characters that a pattern has."""

ANYTHING: Final = "*"
"""The pattern of what is nothing but a value, and of all names beyond the most that are kept."""

# A part is a run of letters and digits: `[^\W_]` is one of these, `[^\W\d_]` a letter.
_VALUE = re.compile(
    r"""
    (?<![^\W_])
    (?:
      [0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}  # a UUID
      | [0-9a-fA-F]{8,}                                     # a digest
      | (?=[a-fA-F]*[0-9])[0-9a-fA-F]{7}                    # a short one, as git's
      | [^\W_]*\d[^\W\d_][^\W_]*                            # letters and digits mixed: 17T08, 3f9a
      | [^\W_]{41,}                                         # nothing that anybody would read
    )
    (?![^\W_])
    | \d+                                                   # a number, also at a word: worker7
    """,
    re.VERBOSE,
)
_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w.-]+")
_WORTH_A_LOOK = re.compile(r"[\d@*]|[^\W_]{8}")
_ROW_OF_VALUES = re.compile(r"\*(?:[-_.+~]*\*)+")  # a date, an address, a version
_LAST_PART = re.compile(r"[^\W_]+\Z")


@lru_cache(maxsize=1024)  # the same few again and again, in most programs
def pattern_of(name: str) -> str:
    """Return the name with `*` for each value in it: `order:17` is `order:*`.

    Values are numbers, dates, UUIDs, digests, addresses of mail, and whatever mixes letters and
    digits. Values in a row are one `*`, unless `:`, `/` or the like stands between them. A
    pattern is its own pattern, and has at most `LONGEST` characters.
    """
    if len(name) <= LONGEST and not _WORTH_A_LOOK.search(name):
        return name
    if "@" in name:
        name = _MAIL.sub("*", name)
    pattern = _ROW_OF_VALUES.sub("*", _VALUE.sub("*", name))
    if len(pattern) <= LONGEST:
        return pattern
    cut = pattern[: LONGEST - 1]
    # Between two parts: half a word could look like a digest, or two names like one.
    return f"{_LAST_PART.sub('', cut) if pattern[LONGEST - 1].isalnum() else cut}…"


class Patterns:
    """The first patterns that came by, at most so many; all later ones are `*` together.

    For whoever keeps something for each pattern. Threads may share it; those that bring new
    patterns at the same moment may get a few more accepted.
    """

    def __init__(self, *, most: int = 200) -> None:
        self._most = most
        self._known: set[str] = {ANYTHING}

    def of(self, name: str) -> str:
        """Return the pattern of a name, or `*` when there are too many others already."""
        pattern = pattern_of(name)
        if pattern in self._known:
            return pattern
        if len(self._known) >= self._most:
            return ANYTHING
        self._known.add(pattern)
        return pattern
