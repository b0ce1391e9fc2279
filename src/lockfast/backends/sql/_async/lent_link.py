"""What makes a store's link one that the application lends: taken, and given back as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.runtime import aio as runtime
from lockfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.sql._async.lending import AsyncLender, AsyncLoan
    from lockfast.backends.sql.steps import Ask, Rows
    from lockfast.runtime.clock import Clock

SETTLED_WITHIN = 2.0
"""One that cannot be put in order by then is closed, and goes back so."""


class AsyncLentLink:
    """The loan of a link; stands before the store's own among the bases of its class.

    A connection that a factory made is ours: it is kept as one of our own would be, and closed.
    """

    _clock: Clock
    _connection: Any

    def __init__(self, *, clock: Clock, where: str) -> None:
        super().__init__(clock=clock, where=where)  # type: ignore[call-arg]
        self.is_lent = True
        self._loan: AsyncLoan | None = None
        self._is_broken = False
        self._is_asking = False

    # -- what a store has to say -------------------------------------------------------

    def _accept(self, given: Any) -> bool:  # noqa: ANN401 - a driver's connection
        """Take the connection over; false if it is dead. A sentence is raised if it is unfit."""
        raise NotImplementedError

    async def _prepare(self, *, deadline: float) -> None:
        """Note what has to be restored at the end, if anything."""

    def _farewell(self) -> Sequence[Ask]:
        """Return what makes the connection what it was."""
        raise NotImplementedError

    # -- taking ------------------------------------------------------------------------

    async def connect(self, address: AsyncLender, *, deadline: float) -> None:
        """Take a connection that is alive, or raise the driver's error or a sentence."""
        self.is_lent = not address.is_ours
        while True:
            loan = self._loan = address.lend(deadline=deadline)
            given = await loan.connection(deadline=deadline)
            try:
                is_alive = self._accept(given)
            except Exception:
                self._loan = None
                loan.give_back(_untouched)
                raise
            if is_alive:
                break
            self._loan = None
            # The only one is left as it is, for the application to find.
            loan.give_back(_dead if address.has_others else _untouched)
            address.refuse_dead()
        loan.cut_by(self._break_off)
        await self._prepare(deadline=deadline)

    async def exchange(self, requests: Sequence[Ask], *, deadline: float) -> list[Rows]:
        """See the link; a cancellation waits for the answer, or it would cost the connection."""
        return await runtime.shield(self._ask(requests, deadline=deadline))

    async def _ask(self, requests: Sequence[Ask], *, deadline: float) -> list[Rows]:
        answers: list[Rows]
        self._is_asking = True
        try:
            answers = await super().exchange(requests, deadline=deadline)  # type: ignore[misc]
        except Exception:
            self._is_asking = False  # it is closed, or as good as before
            raise
        self._is_asking = False
        return answers

    @property
    def is_open(self) -> bool:
        """Whether it can be used, as far as is known here."""
        return self._loan is not None and self._is_there

    @property
    def _is_there(self) -> bool:
        return bool(super().is_open)  # type: ignore[misc]

    # -- giving back -------------------------------------------------------------------

    def close(self) -> None:
        """Give it back, as it was when it was taken; its keeper sees to that."""
        loan, self._loan = self._loan, None
        if loan is not None:
            loan.give_back(self._settle)

    def _break_off(self) -> None:
        self._is_broken = True
        super()._break_off()  # type: ignore[misc]

    async def _settle(self) -> bool:
        """Put the connection in order; false if that is not to be had, and it was closed."""
        if self._is_there and (self._is_asking or not self.is_lent):
            # Ours; or interrupted twice: the next to read would get an answer that is not its own.
            self._break_off()
        if self._is_there:
            try:
                if goodbye := self._farewell():
                    await self._ask(goodbye, deadline=self._clock.now() + SETTLED_WITHIN)
                self._let_go()  # type: ignore[attr-defined]
            except Exception:
                # Whoever used it was interrupted in the middle, or the server does not answer.
                self._break_off()
                raise
        return not self._is_broken

    def disinherit(self) -> None:
        """Let go, in a forked child, of what the parent uses: without a word to the server."""
        loan, self._loan = self._loan, None
        if loan is not None:
            loan.forget()
            forking.leak((loan, self._connection))
        if self.is_lent:
            self._connection = None  # its socket is the application's
        else:
            super().disinherit()  # type: ignore[misc]


async def _untouched() -> bool:
    return True


async def _dead() -> bool:
    return False
