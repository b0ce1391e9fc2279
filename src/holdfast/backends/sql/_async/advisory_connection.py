"""The one connection that carries all advisory locks of a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from holdfast.backends.sql.ending import SessionEnded
from holdfast.backends.sql.lifeline import Lifeline
from holdfast.errors import LockError, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.backends.sql.steps import Ask, Rows


class AsyncLink(Protocol):
    """What is needed of a store's link."""

    @property
    def is_open(self) -> bool:
        """Whether it can be used, as far as is known here."""
        ...

    async def exchange(self, requests: Sequence[Ask], *, deadline: float) -> Sequence[Rows]:
        """Return the rows of each, or raise the driver's error."""
        ...

    def fileno(self) -> int:
        """Return the number of its socket."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...

    def disinherit(self) -> None:
        """Let go, in a forked child, of what the parent uses."""
        ...


class AsyncAdvisoryConnection:
    """A link whose end is told as the end of the session.

    `number` is the server's for this session. `told` makes a sentence of what the server says.
    """

    def __init__(
        self, link: AsyncLink, *, number: int, told: Callable[[Exception], LockError]
    ) -> None:
        self.number = number
        self._link = link
        self._told = told
        self._lifeline = Lifeline(link.fileno())
        self._lifeline.keep_alive()

    async def ask(self, request: Ask, *, deadline: float) -> Rows:
        """Return the rows. SessionEnded if there is no session after it; else the server's no."""
        try:
            [rows] = await self._link.exchange([request], deadline=deadline)
        except LockError:
            raise  # there was no time to ask
        except Exception as error:
            # Whatever the driver makes of an end: its own errors, or what it stumbles over.
            if self._link.is_open and not isinstance(told := self._told(error), OutcomeUnknown):
                raise told from error
            self.close()
            raise SessionEnded("the session with the server has ended") from error
        return rows

    @property
    def is_sound(self) -> bool:
        """Whether the server still listens, as far as can be seen without asking it."""
        return self._link.is_open and not self._lifeline.has_ended()

    def cut(self) -> None:
        """Let the request under way fail; from any thread."""
        self._lifeline.cut()

    def close(self) -> None:
        """Let go of it: the server frees what it carried."""
        self._link.close()
        self._lifeline.close()

    def disinherit(self) -> None:
        """Let go, in a forked child, of what the parent uses: without a word to the server."""
        self._link.disinherit()
        self._lifeline.close()
