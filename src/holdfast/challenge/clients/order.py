"""What one client is told when it starts, by its standard input.

Not by its command line, which all of this machine can read: the URL may have a password in it.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
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

    def tell(self, process: subprocess.Popen[bytes]) -> None:
        """Give it to a client that was started just now; it fits in a pipe, read or not."""
        if process.stdin is not None:
            with suppress(BrokenPipeError), process.stdin as to_be_read:  # it is dead already
                to_be_read.write(json.dumps(asdict(self)).encode())

    @classmethod
    def read(cls, text: str) -> Order:
        """Return what was told."""
        return cls(**json.loads(text))
