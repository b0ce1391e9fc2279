"""What one client is told when it starts.

Not by its command line, which all of this machine can read: the URL may have a password in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Order:
    """Who it is, where to go, and what to do there until it is told to end."""

    client: str
    """Its name in the history: "2", and "2.1" for who came in its place."""
    make: str
    """The class of its contender, as "module:name"."""
    url: str
    names: Sequence[str]
    """What is contended for, one of them at a time."""
    workload: str
    ttl: float
    seed: int
    diary: str
    """The file for what it sees."""
    last_words: str
    """The file for what it had in hand before it began and after it ended."""
    resource: str
    """The socket of what is behind the lock."""
    clock_ahead: float = 0.0
