# Generated from src/lockfast/backends/sql/_async/borrowed.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Connections borrowed from the application."""

from __future__ import annotations

import logging
import os
import weakref
from typing import TYPE_CHECKING, Any

from lockfast.errors import BackendUnavailable, ConfigurationError, LockError
from lockfast.runtime import fork
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.backends.sql._sync.sources import BorrowedFrom, Source
    from lockfast.backends.sql.steps import Query, Rows
    from lockfast.runtime.clock import Clock

# Connections that the application lends, each for one request, and that are always given back.
#
# The caller itself never calls a foreign pool, because the pool's timeouts are not ours, and a
# cancellation or an interrupt in the middle of a call could lose a connection for good. So each
# borrowed connection has a returner, which is a task or a thread. The returner takes the
# connection, waits until the connection is no longer needed, restores its state, and gives it back.

CLOSE_WITHIN_SECONDS = 5.0
"""How long closing waits for connections that are being given back, in seconds."""

DECIDE_WITHIN_SECONDS = 1.0
"""How long closing waits for connections that are still being taken but no longer needed, in
seconds."""

RETURN_POLL_SECONDS = 0.5
"""Poll interval of a returner, in seconds. By polling, the returner notices that its connection is
no longer needed, even if an interrupt prevented the signal."""

_DRIVERS = ("psycopg", "pymysql", "asyncmy")


class Borrower:
    """Borrows connections from one source; a transport uses a borrower like a server address."""

    def __init__(self, source: Source, *, where: str, clock: Clock) -> None:
        self.where = where
        self.room = source.room
        self.is_ours = source.is_ours
        self.has_others = source.has_others
        self._source = source
        self._clock = clock
        self._process = os.getpid()
        self._state = runtime.StateLock()
        self._returners: set[Returner] = set()

    def lend(self, *, deadline: float) -> Borrowed:
        """Begin to take a connection from the source; return the borrowed connection at once."""
        if os.getpid() != self._process and self._source.is_inherited():
            raise ConfigurationError(
                f"{self.where}: its connections were made before this process was forked, and "
                "belong to the parent; make what you give to the locks anew in the child (for an "
                "engine of SQLAlchemy's call its dispose(close=False))"
            )
        patience = deadline - self._clock.now()
        if patience <= 0:
            raise self._lacking()
        returner = Returner(self._source, patience, self._forget)
        borrowed = Borrowed(
            returner, self
        )  # created first, because its `__del__` cleans up after an interrupt
        with self._state:
            self._returners.add(returner)
        try:
            returner.task = runtime.spawn(returner.keep, name="lockfast-loan")
        except RuntimeError as error:
            self._forget(returner)
            raise BackendUnavailable(f"{self.where}: no thread is to be had: {error}") from error
        return borrowed

    def connection_of(self, returner: Returner, *, deadline: float) -> Any:  # noqa: ANN401 - a driver's
        """Return the driver's connection; raise the driver's error or a LockError if that fails."""
        runtime.wait_for(returner.is_decided, deadline=deadline, clock=self._clock)
        lent, error = returner.lent, returner.error
        if lent is not None:
            returner.is_used = True
            return lent.connection
        if error is None:
            raise self._lacking()
        error = getattr(error, "orig", None) or error  # SQLAlchemy wraps the driver's error
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
        """Raise if the source has no other connection than the dead one."""
        if not self.has_others:
            raise BackendUnavailable(
                f"{self.where}: your connection is closed; give one that is open, or a pool, which "
                "replaces those that break"
            )

    def _lacking(self) -> BackendUnavailable:
        return BackendUnavailable(
            f"{self.where}: no connection was free in time; {self._source.why_none()}"
        )

    def _forget(self, returner: Returner) -> None:
        with self._state:
            self._returners.discard(returner)

    def close(self) -> None:
        """Wait a limited time until all borrowed connections are back and none is being taken."""
        with self._state:
            keepers = list(self._returners)
        for one in keepers:
            if not one.has_begun and one.task is None and one.is_over.is_set():
                continue  # an interrupt prevented the start of the returner
            patience = CLOSE_WITHIN_SECONDS
            if not one.is_decided.is_set() and one.task is not None:
                # A thread that waits in a foreign pool cannot be ended. If the thread still gets a
                # connection, it gives the connection back at once, because nobody needs it any
                # more.
                one.task.cancel()
                patience = DECIDE_WITHIN_SECONDS
            deadline = self._clock.now() + patience
            runtime.wait_for(one.has_ended, deadline=deadline, clock=self._clock)

    def after_fork_in_child(self) -> None:
        """Start without any of the parent's returners."""
        self._state = runtime.StateLock()
        self._returners = set()


class Borrowed:
    """One borrowed connection.

    If this object is lost after the connection was used, the connection is given back as broken.
    """

    _returner: Returner | None = None

    def __init__(self, returner: Returner, borrower: Borrower) -> None:
        self._returner = returner
        self._borrower = borrower

    def connection(self, *, deadline: float) -> Any:  # noqa: ANN401 - a driver's
        """Return the driver's connection; raise the driver's error or a LockError if that fails."""
        returner = self._returner
        if returner is None:
            raise BackendUnavailable(f"{self._borrower.where}: it was given back before it came")
        return self._borrower.connection_of(returner, deadline=deadline)

    def abort_with(self, cut: Callable[[], None]) -> None:
        """Set the method with which the returner cuts the connection if it has to stop early.

        Only a weak reference to the method is kept.
        """
        if self._returner is not None:
            self._returner.cut = weakref.WeakMethod(cut)

    def give_back(self, settle: Callable[[], bool] | None = None) -> None:
        """Give the connection back, now or as soon as it has been taken.

        `settle` restores the state of the connection, and returns whether it may be used again.
        """
        returner = self._returner
        if returner is not None:
            returner.settle = settle
            returner.is_over.set()
            # done last, so that after an interrupt `__del__` can still give the connection back
            self._returner = None

    def forget(self) -> None:
        """Forget the connection in a forked child, because it belongs to the parent."""
        self._returner = None

    def __del__(self) -> None:
        # This has an effect only if an interrupt struck, and the owner lost the connection before
        # giving it back.
        self.give_back()


class Returner:
    """Takes a connection from the source, and gives it back."""

    def __init__(self, source: Source, patience: float, forget: Callable[[Returner], None]) -> None:
        self.lent: BorrowedFrom | None = None
        self.error: Exception | None = None
        self.is_used = False
        self.has_begun = False
        self.settle: Callable[[], bool] | None = None
        self.cut: weakref.WeakMethod[Callable[[], None]] | None = None
        self.is_decided = runtime.WakeEvent()
        self.is_over = runtime.WakeEvent()
        self.has_ended = runtime.WakeEvent()
        self.task: runtime.Task | None = None
        self._source = source
        self._patience = patience
        self._forget = forget

    def keep(self) -> None:
        """Take a connection, wait until it is no longer needed, and give it back.

        Raises no errors, because no caller would see them.
        """
        self.has_begun = True
        try:
            try:
                self.lent = self._source.take(self._patience)
            except Exception as error:  # noqa: BLE001 - foreign code; the borrower gets it
                self.error = error
            finally:
                self.is_decided.set()
            if self.lent is not None:
                self._keep(self.lent)
        finally:
            self._forget(self)
            self.has_ended.set()

    def _keep(self, lent: BorrowedFrom) -> None:
        is_whole = False
        try:
            while not self.is_over.is_set():
                self.is_over.wait(RETURN_POLL_SECONDS)
            # A connection that was not used is unchanged.
            is_whole = not self.is_used if self.settle is None else self.settle()
        except Exception as error:  # noqa: BLE001 - the connection is given back all the same
            _log.debug("a connection that was lent is not whole: %r", error)
        finally:
            # If a program cancels all tasks, the returner may be cancelled before the request that
            # uses the connection. So cut the connection before giving it back.
            cut = None if self.cut is None or self.is_over.is_set() else self.cut()
            if cut is not None:
                cut()
            self.settle = None
            self._give_back(lent, is_whole=is_whole)

    def _give_back(self, lent: BorrowedFrom, *, is_whole: bool) -> None:
        try:
            self._source.give_back(lent, is_whole=is_whole)
        except Exception as error:  # noqa: BLE001 - foreign code
            _log.warning("a connection could not be given back: %r", error)


_log = logging.getLogger("lockfast")

# Turns a store's connection into a borrowed connection, which is taken from the application and
# given back in its original state.

SETTLE_WITHIN_SECONDS = 2.0
"""Timeout for restoring a connection's state, in seconds; after that the connection is closed
before it is given back."""


class BorrowedConnection:
    """A borrowed connection; this class must precede the store's own class among the bases.

    A connection from a factory function belongs to us. We keep it like a connection that we opened,
    and close it at the end.
    """

    _clock: Clock
    _connection: Any

    def __init__(self, *, clock: Clock, where: str) -> None:
        super().__init__(clock=clock, where=where)  # type: ignore[call-arg]
        self.is_borrowed = True
        self._borrowed: Borrowed | None = None
        self._is_broken = False
        self._is_asking = False

    # -- what a store defines ----------------------------------------------------------

    def _accept(self, given: Any) -> bool:  # noqa: ANN401 - a driver's connection
        """Take over the connection; return false if it is dead, and raise if it is unsuitable."""
        raise NotImplementedError

    def _prepare(self, *, deadline: float) -> None:
        """Save the state, if any, that has to be restored when the connection is given back."""

    def _restore_queries(self) -> Sequence[Query]:
        """Return the queries that restore the connection's state."""
        raise NotImplementedError

    # -- taking ------------------------------------------------------------------------

    def connect(self, address: Borrower, *, deadline: float) -> None:
        """Take a connection that is alive; if that fails, raise the driver's or our own error."""
        self.is_borrowed = not address.is_ours
        while True:
            borrowed = self._borrowed = address.lend(deadline=deadline)
            given = borrowed.connection(deadline=deadline)
            try:
                is_alive = self._accept(given)
            except Exception:
                self._borrowed = None
                borrowed.give_back(_untouched)
                raise
            if is_alive:
                break
            self._borrowed = None
            # If the source has no other connection, leave the dead connection untouched, so that
            # the application can see what happened to it.
            borrowed.give_back(_dead if address.has_others else _untouched)
            address.refuse_dead()
        borrowed.abort_with(self._disconnect)
        self._prepare(deadline=deadline)

    def exchange(self, requests: Sequence[Query], *, deadline: float) -> list[Rows]:
        """Return the rows of each query.

        A cancellation takes effect only after the reply, so that the connection stays usable.
        """
        return runtime.shield(self._ask(requests, deadline=deadline))

    def _ask(self, requests: Sequence[Query], *, deadline: float) -> list[Rows]:
        answers: list[Rows]
        self._is_asking = True
        try:
            answers = super().exchange(requests, deadline=deadline)  # type: ignore[misc]
        except Exception:
            self._is_asking = False  # the connection is closed, or still usable
            raise
        self._is_asking = False
        return answers

    @property
    def is_open(self) -> bool:
        """Whether the connection is usable, as far as this side knows."""
        return self._borrowed is not None and self._is_there

    @property
    def _is_there(self) -> bool:
        return bool(super().is_open)  # type: ignore[misc]

    # -- giving back -------------------------------------------------------------------

    def close(self) -> None:
        """Give the connection back; its returner restores the original state first."""
        borrowed, self._borrowed = self._borrowed, None
        if borrowed is not None:
            borrowed.give_back(self._settle)

    def _disconnect(self) -> None:
        self._is_broken = True
        super()._disconnect()  # type: ignore[misc]

    def _settle(self) -> bool:
        """Restore the connection's state; return false if it had to be closed instead."""
        if self._is_there and (self._is_asking or not self.is_borrowed):
            # Close the connection if it is our own, or if a request on it was interrupted twice.
            # After such an interrupt the next request would read the reply to the interrupted one.
            self._disconnect()
        if self._is_there:
            try:
                if restoring := self._restore_queries():
                    self._ask(restoring, deadline=self._clock.now() + SETTLE_WITHIN_SECONDS)
                self._let_go()  # type: ignore[attr-defined]
            except Exception:
                # A request was interrupted in the middle, or the server does not answer.
                self._disconnect()
                raise
        return not self._is_broken

    def abandon_in_child(self) -> None:
        """Abandon the parent's connection in a forked child, without sending anything on it."""
        borrowed, self._borrowed = self._borrowed, None
        if borrowed is not None:
            borrowed.forget()
            fork.abandon((borrowed, self._connection))
        if self.is_borrowed:
            self._connection = None  # the socket belongs to the application
        else:
            super().abandon_in_child()  # type: ignore[misc]


def _untouched() -> bool:
    return True


def _dead() -> bool:
    return False


# Makes a store's transport use connections that the application lends.


class BorrowedTransport:
    """A transport over borrowed connections; must precede the store's own class among the bases."""

    def __init__(self, borrower: Borrower, *, clock: Clock, most: int) -> None:
        if borrower.room is not None:
            # Leave one connection for listening, or for the application.
            most = max(1, min(most, borrower.room - 1))
        super().__init__(borrower, clock=clock, most=most)  # type: ignore[call-arg]
        self.room = borrower.room
        self._borrower = borrower

    def close(self) -> None:
        """Close the transport, and wait a limited time until all borrowed connections are back."""
        super().close()  # type: ignore[misc]
        self._borrower.close()

    def after_fork_in_child(self) -> None:
        """Start without any of the parent's connections."""
        self._borrower.after_fork_in_child()
        super().after_fork_in_child()  # type: ignore[misc]
