"""One of the nodes, as a client knows it; both flavours write here what they learn of it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockfast.core.quorum import Standing
from lockfast.errors import BackendUnavailable, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockfast.backends.redlock.requests import Question, Scripts
    from lockfast.errors import LockError

ERRANDS = 256
"""As many withdrawals are kept for a node that cannot be told; the rest ends by its ttl."""


@dataclass(frozen=True, slots=True)
class Errand:
    """What a node must still be told, as long as it could matter."""

    question: Question
    until: float


class Misfit(ConfigurationError):
    """The node was set up on other terms, and must not be asked along with the others.

    `of_nodes` is the number of nodes by its terms; 0 if it must not be named at all.
    """

    def __init__(self, why: str, *, of_nodes: int) -> None:
        super().__init__(why)
        self.of_nodes = of_nodes


class NotEnrolled(BackendUnavailable):
    """The node can be reached, and no client that may has enrolled it yet: it has no locks."""


class Node:
    """What is known of one node."""

    def __init__(self, number: int, where: str) -> None:
        self.number = number
        self.where = where
        self.run_id = ""
        self.uptime: float = 0.0
        self.origin = ""
        self.counts = False
        self.scripts: Scripts | None = None
        """Of the birth that it is known by; None while it must be greeted (again)."""
        self.is_slow = False
        """Whether an answer is overdue; any byte from it clears the mark."""
        self.trouble: LockError | None = None
        """Why it cannot be asked, when it last was tried."""
        self.lacks_terms = False
        """Whether some of the terms on which clients have to agree are missing there."""
        self.counts_in: float | None = None
        """How long it does not count yet, as it was last told."""
        self.asked_at: float = float("-inf")
        """When it was last sent something."""
        self._errands: deque[Errand] = deque(maxlen=ERRANDS)

    @property
    def birth(self) -> str:
        """By what it is known; empty while it is not."""
        return "" if self.scripts is None else self.scripts.birth

    def silence(self) -> Standing:
        """Return how it stands while it has not answered."""
        return Standing.OVERDUE if self.is_slow else Standing.WAITING

    def owe(self, question: Question, *, now: float, owed_for: float) -> None:
        """Keep what it could not be told; not if nothing was sent to it that could still matter."""
        if now - self.asked_at < owed_for:
            self._errands.append(Errand(question, now + owed_for))

    def keep(self, errands: Iterable[Errand]) -> None:
        """Keep what it was told, and may not have heard."""
        self._errands.extend(errands)

    def errands(self, now: float) -> list[Errand]:
        """Take what it must still be told."""
        found = []
        # One by one: another thread may bring some meanwhile, or take them too.
        while self._errands:
            try:
                one = self._errands.popleft()
            except IndexError:
                break
            if one.until > now:
                found.append(one)
        return found

    @property
    def has_errands(self) -> bool:
        """Whether there is something that it must be told."""
        return bool(self._errands)


def first_of(nodes: Sequence[Node]) -> int | None:
    """Return the node that those ask first who were refused; the same for all who can."""
    for node in nodes:
        if node.counts and node.scripts is not None and not node.is_slow and not node.trouble:
            return node.number
    return None
