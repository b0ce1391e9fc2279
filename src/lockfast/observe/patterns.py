"""Patterns: names without their variable parts. Figures are kept per pattern, not per name.

A name is free text, and most names contain an id. Figures for each name would fill the memory of
the counting process, and reveal customer data. A pattern never contains a digit. An id of letters
alone (`user:alice`) is not recognised, so the number of patterns is limited; see `Patterns`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from lockfast.core.event_notes import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.model import Claim

PATTERN_MAX_CHARACTERS: Final = 80
"""Maximum length of a pattern, in characters."""

ANYTHING: Final = "*"
"""Pattern of a name that consists only of a value, and of all names beyond the maximum number of
patterns.
"""

# A part is a run of letters and digits: `[^\W_]` matches a letter or digit, `[^\W\d_]` only a
# letter.
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


@lru_cache(maxsize=1024)  # most programs use the same few names
def pattern_of(name: str) -> str:
    """Return the name with `*` for each value in it: `order:17` becomes `order:*`.

    Values are numbers, dates, UUIDs, digests, email addresses, and words that mix letters and
    digits. Adjacent values become one `*`, unless `:`, `/` or the like separates them. The pattern
    of a pattern is the pattern itself. A pattern has at most `PATTERN_MAX_CHARACTERS` characters.
    """
    if len(name) <= PATTERN_MAX_CHARACTERS and not _WORTH_A_LOOK.search(name):
        return name
    if "@" in name:
        name = _MAIL.sub("*", name)
    pattern = _ROW_OF_VALUES.sub("*", _VALUE.sub("*", name))
    if len(pattern) <= PATTERN_MAX_CHARACTERS:
        return pattern
    cut = pattern[: PATTERN_MAX_CHARACTERS - 1]
    # Cut only between two parts. Half a word could look like a digest, or two names could look
    # alike.
    return f"{_LAST_PART.sub('', cut) if pattern[PATTERN_MAX_CHARACTERS - 1].isalnum() else cut}…"


class Patterns:
    """The first `most` patterns that were seen; all later patterns become `*`.

    This is for code that keeps something for each pattern. Several threads may use the object; if
    they add new patterns at the same moment, slightly more than `most` may be accepted.
    """

    def __init__(self, *, most: int = 200) -> None:
        self._most = most
        self._known: set[str] = {ANYTHING}

    def of(self, name: str) -> str:
        """Return the pattern of a name, or `*` for a new pattern when there are too many."""
        pattern = pattern_of(name)
        if pattern in self._known:
            return pattern
        if len(self._known) >= self._most:
            return ANYTHING
        self._known.add(pattern)
        return pattern


T = TypeVar("T")

# A value for each (name pattern, kind, store), with fast lookup by claim.

NAMES_KEPT: Final = 4096
"""Maximum number of names in the lookup by claim; a full lookup is cleared."""


class Labels(NamedTuple):
    """The labels that identify a value."""

    pattern: str
    kind: str
    store: str


class ByPattern(Generic[T]):
    """Creates each value on first use. Like `Patterns`, it may be used by several threads."""

    def __init__(self, make: Callable[[Labels], T], *, raw_names: bool) -> None:
        self._make = make
        self._raw_names = raw_names
        self._patterns = Patterns()
        self.all: dict[Labels, T] = {}
        self._known: dict[tuple[str, str, int, int], T] = {}

    def of_claim(self, claim: Claim, store: str) -> T:
        """Return the value for the pattern of a claim's name."""
        key = (claim.name, store, claim.weight, claim.capacity)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= NAMES_KEPT:
                self._known.clear()
            found = self._known[key] = self.of(claim.name, kind_of(claim), store)
        return found

    def of(self, name: str, kind: str, store: str) -> T:
        """Return the value for the pattern of a name."""
        labels = Labels(name if self._raw_names else self._patterns.of(name), kind, store)
        found = self.all.get(labels)
        if found is None:
            found = self.all.setdefault(labels, self._make(labels))
        return found
