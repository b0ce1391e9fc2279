"""Whether an answer is looked for before it is slept for: while that is seldom in vain."""

from __future__ import annotations

LOOK_FOR = 0.0001
LOOKS = 100
"""For so long, and so often at most, an answer is looked for before it is slept for."""

SLEEPS = 128
"""As many answers at most are slept for between two looks."""


class Looking:
    """What is known of looking on one connection.

    A server nearby answers sooner than a sleeper is woken, so on an idle machine looking halves
    the time of a request. Where an answer takes longer, or others are after the processor or the
    interpreter, it only costs. So each look that was in vain doubles how many answers are slept
    for before the next, and each that found its answer takes a quarter off: one late answer in ten
    spoils nothing, and where every other is late hardly any is looked for.
    """

    __slots__ = ("backoff", "sleeps")

    def __init__(self) -> None:
        self.sleeps: int = 0
        """How many answers are to be slept for before one is looked for."""
        self.backoff: int = 1
        """How many that will be after a look in vain."""

    def was_in_vain(self) -> None:
        """Sleep for the next ones."""
        self.sleeps = self.backoff
        self.backoff = min(2 * self.backoff, SLEEPS)

    def found(self) -> None:
        """Be readier to look."""
        self.backoff = max(1, self.backoff * 3 // 4)
