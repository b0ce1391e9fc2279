"""Connections that the application lends, each for one request, and always given back.

The caller itself does nothing in a foreign pool: its patience is not ours, and a cancellation
or an interrupt in the middle of it could lose a connection for good. So each loan has a keeper,
a task or a thread. It takes the connection, waits until the loan is over, has the connection
put in the order in which it was found, and gives it back.
"""

from __future__ import annotations

import logging
import os
import weakref
from typing import TYPE_CHECKING, Any

from lockfast.errors import BackendUnavailable, ConfigurationError, LockError
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lockfast.backends.sql._async.sources import AsyncSource, Lent
    from lockfast.runtime.clock import Clock

CLOSED_WITHIN = 5.0
"""How long closing waits for what is being given back."""

DECIDED_WITHIN = 1.0
"""And for what is being taken, which nobody wants any more."""

LOOK_AGAIN = 0.5
"""An end that an interrupt kept from being told is seen within so long."""

_DRIVERS = ("psycopg", "pymysql", "asyncmy")


class AsyncLender:
    """Lends what one source has; known to the links as their address."""

    def __init__(self, source: AsyncSource, *, where: str, clock: Clock) -> None:
        self.where = where
        self.room = source.room
        self.is_ours = source.is_ours
        self.has_others = source.has_others
        self._source = source
        self._clock = clock
        self._process = os.getpid()
        self._state = runtime.StateLock()
        self._keepers: set[AsyncKeeper] = set()

    def lend(self, *, deadline: float) -> AsyncLoan:
        """Return a loan, whose connection is yet to come."""
        if os.getpid() != self._process and self._source.is_inherited():
            raise ConfigurationError(
                f"{self.where}: its connections were made before this process was forked, and "
                "belong to the parent; make what you give to the locks anew in the child (for an "
                "engine of SQLAlchemy's call its dispose(close=False))"
            )
        patience = deadline - self._clock.now()
        if patience <= 0:
            raise self._lacking()
        keeper = AsyncKeeper(self._source, patience, self._forget)
        loan = AsyncLoan(keeper, self)  # first: lost in an interrupt, it says that it is over
        with self._state:
            self._keepers.add(keeper)
        try:
            keeper.task = runtime.spawn(keeper.keep, name="lockfast-loan")
        except RuntimeError as error:
            self._forget(keeper)
            raise BackendUnavailable(f"{self.where}: no thread is to be had: {error}") from error
        return loan

    async def connection_of(self, keeper: AsyncKeeper, *, deadline: float) -> Any:  # noqa: ANN401 - a driver's
        """Return the driver's connection, or raise: the driver's error, or a sentence."""
        await runtime.wait_for(keeper.is_decided, deadline=deadline, clock=self._clock)
        lent, error = keeper.lent, keeper.error
        if lent is not None:
            keeper.is_used = True
            return lent.connection
        if error is None:
            raise self._lacking()
        error = getattr(error, "orig", None) or error  # SQLAlchemy has it inside its own
        of_driver = type(error).__module__.partition(".")[0] in _DRIVERS
        if of_driver or isinstance(error, OSError | LockError):
            raise error
        if isinstance(error, RuntimeError) and "loop" in str(error):
            raise ConfigurationError(
                f"{self.where}: what was given to the locks belongs to another event loop; make "
                "one in the loop that uses the locks"
            ) from error
        said = str(error) or type(error).__name__
        raise BackendUnavailable(
            f"{self.where}: no connection was lent ({said}); {self._source.why_none()}"
        ) from error

    def refuse_dead(self) -> None:
        """Raise if there is no other connection to be had than the dead one that was lent."""
        if not self.has_others:
            raise BackendUnavailable(
                f"{self.where}: your connection is closed; give one that is open, or a pool, which "
                "replaces those that break"
            )

    def _lacking(self) -> BackendUnavailable:
        return BackendUnavailable(
            f"{self.where}: no connection was free in time; {self._source.why_none()}"
        )

    def _forget(self, keeper: AsyncKeeper) -> None:
        with self._state:
            self._keepers.discard(keeper)

    async def close(self) -> None:
        """Return when all that was lent is back, and nobody asks for more."""
        with self._state:
            keepers = list(self._keepers)
        for one in keepers:
            if not one.has_begun and one.task is None and one.is_over.is_set():
                continue  # an interrupt came before it could begin, and it never will
            patience = CLOSED_WITHIN
            if not one.is_decided.is_set() and one.task is not None:
                # A thread that waits in a foreign pool cannot be ended; it gives back what it
                # gets, since the loan is over.
                one.task.cancel()
                patience = DECIDED_WITHIN
            deadline = self._clock.now() + patience
            await runtime.wait_for(one.has_ended, deadline=deadline, clock=self._clock)

    def after_fork_in_child(self) -> None:
        """Begin with nothing of the parent's."""
        self._state = runtime.StateLock()
        self._keepers = set()


class AsyncLoan:
    """One connection, until it is given back; a loan that is lost is given back as broken."""

    _keeper: AsyncKeeper | None = None

    def __init__(self, keeper: AsyncKeeper, lender: AsyncLender) -> None:
        self._keeper = keeper
        self._lender = lender

    async def connection(self, *, deadline: float) -> Any:  # noqa: ANN401 - a driver's
        """Return the driver's connection, or raise: the driver's error, or a sentence."""
        keeper = self._keeper
        if keeper is None:
            raise BackendUnavailable(f"{self._lender.where}: it was given back before it came")
        return await self._lender.connection_of(keeper, deadline=deadline)

    def cut_by(self, cut: Callable[[], None]) -> None:
        """Know how to end the use of it, if the keeper has to go before; a method, held weakly."""
        if self._keeper is not None:
            self._keeper.cut = weakref.WeakMethod(cut)

    def give_back(self, settle: Callable[[], Awaitable[bool]] | None = None) -> None:
        """End the loan, now or when it comes; `settle` says whether the connection is whole."""
        keeper = self._keeper
        if keeper is not None:
            keeper.settle = settle
            keeper.is_over.set()
            self._keeper = None  # not before: an interrupt would leave nobody to say so

    def forget(self) -> None:
        """Know nothing of it any more, in a forked child: it is the parent's."""
        self._keeper = None

    def __del__(self) -> None:
        # An interrupt took it from its owner before that could give it back.
        self.give_back()


class AsyncKeeper:
    """Whoever takes the connection, and gives it back."""

    def __init__(
        self, source: AsyncSource, patience: float, forget: Callable[[AsyncKeeper], None]
    ) -> None:
        self.lent: Lent | None = None
        self.error: Exception | None = None
        self.is_used = False
        self.has_begun = False
        self.settle: Callable[[], Awaitable[bool]] | None = None
        self.cut: weakref.WeakMethod[Callable[[], None]] | None = None
        self.is_decided = runtime.Event()
        self.is_over = runtime.Event()
        self.has_ended = runtime.Event()
        self.task: runtime.Task | None = None
        self._source = source
        self._patience = patience
        self._forget = forget

    async def keep(self) -> None:
        """Do it all; nothing is raised, since nobody waits for that."""
        self.has_begun = True
        try:
            try:
                self.lent = await self._source.take(self._patience)
            except Exception as error:  # noqa: BLE001 - foreign code; told to whoever waits
                self.error = error
            finally:
                self.is_decided.set()
            if self.lent is not None:
                await self._keep(self.lent)
        finally:
            self._forget(self)
            self.has_ended.set()

    async def _keep(self, lent: Lent) -> None:
        is_whole = False
        try:
            while not self.is_over.is_set():
                await self.is_over.wait(LOOK_AGAIN)
            # One that nobody has used is as it was.
            is_whole = not self.is_used if self.settle is None else await self.settle()
        except Exception as error:  # noqa: BLE001 - it is given back all the same
            _log.debug("a connection that was lent is not whole: %r", error)
        finally:
            # Where a program cancels all tasks, whoever uses it may not know yet.
            cut = None if self.cut is None or self.is_over.is_set() else self.cut()
            if cut is not None:
                cut()
            self.settle = None
            await self._give_back(lent, is_whole=is_whole)

    async def _give_back(self, lent: Lent, *, is_whole: bool) -> None:
        try:
            await self._source.give_back(lent, is_whole=is_whole)
        except Exception as error:  # noqa: BLE001 - foreign code
            _log.warning("a connection could not be given back: %r", error)


_log = logging.getLogger("lockfast")
