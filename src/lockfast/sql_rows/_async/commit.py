"""`hold_until_commit`: how the end of a transaction is noticed in each library."""

from __future__ import annotations

import logging
import warnings
import weakref
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from lockfast.errors import ConfigurationError, LockError
from lockfast.runtime import aio as runtime
from lockfast.sql_rows.ending_aio import SYNC_FORM, wait_in_hook
from lockfast.sql_rows.transactions import is_closed, is_over, is_unanswered

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from types import TracebackType

    from lockfast.client._async.lease import AsyncLease

T = TypeVar("T")


# The leases that end with the transactions of one session or connection.
#
# Several leases may be tied to the same transaction, and each of them must be able to prevent the
# commit. So all of them are checked before the commit, and released after it.
#
# The leases are released when the transaction is settled, which means that its commit or rollback
# was answered. A commit that was sent and not answered may still take effect, at a server that is
# slow or is waiting for its standby. In that case nothing is released; the leases are no longer
# renewed, and end by their ttl. Support for another library must distinguish the two cases.


class AsyncTie:
    """Releases a lease after its transaction; if dropped earlier, the client releases the lease."""

    def __init__(self, lease: AsyncLease) -> None:
        self._lease, self._duty = lease.beyond_its_block()

    def check(self) -> None:
        """Raise LeaseLost or NotOwner if we no longer hold the name, to prevent the commit."""
        self._lease.check()

    async def end(self) -> None:
        """Release the lease without raising, as an error would hide the transaction's outcome."""
        try:
            await self._lease.release()
        except LockError as error:
            # If the release was not answered, for example, the client repeats the release in the
            # background.
            logging.getLogger("lockfast").warning(
                "the transaction that it was tied to is over, but the lease on %r was not "
                "released cleanly: %s",
                self._lease.name,
                error,
            )

    def leave_to_ttl(self) -> None:
        """Leave the lease to its ttl, because the commit was sent but its outcome is unknown."""
        self._lease.leave_to_ttl()
        self._duty.fulfil()

    def run_out_if_dropped(self) -> None:
        """Leave the lease to its ttl if this object is dropped; finalizers call this."""
        self._duty.leave_to_ttl()


class AsyncTies:
    """The leases that end with the open transaction, or if none is open, with the next one."""

    def __init__(self) -> None:
        self._state = runtime.StateLock()
        self._ties: list[AsyncTie] = []
        self._is_unanswered = False
        """Whether a commit was sent and not answered, so that only a further reply settles the
        transaction.
        """

    def add(self, lease: AsyncLease) -> None:
        """Make the lease end with the transaction."""
        one = AsyncTie(lease)
        with self._state:
            self._ties.append(one)

    def check(self) -> None:
        """Raise if one of the names is no longer held by us."""
        with self._state:
            ties = list(self._ties)
        for one in ties:
            one.check()

    def __bool__(self) -> bool:
        return bool(self._ties)

    async def end_with(
        self,
        act: Callable[[], Coroutine[Any, Any, T]],
        *,
        is_over: Callable[[], bool],
        is_unanswered: Callable[[], bool] | None = None,
        settles: bool = True,
    ) -> T:
        """Run `act`, which ends the transaction; then release all leases, unless it is still open.

        A commit may fail before anything is sent, because the driver rejects the commit, or because
        the task is cancelled while it waits for the connection. The transaction is then still open,
        and a caller that catches the error and commits later still needs the leases.

        For a commit, `is_unanswered` returns whether the commit may have been sent without a reply.
        `settles` means that success implies a reply from the server, which is not true if `act`
        closes the connection.
        """
        is_done = False
        try:
            result = await act()
            is_done = True
            return result
        finally:
            if is_done and settles:
                self._is_unanswered = False
            elif not is_done and is_unanswered is not None and is_unanswered():
                self._is_unanswered = True
            if is_done or is_over():
                await self.settle()

    def commit_was_sent(self) -> None:
        """Record that the commit was sent and is not answered yet."""
        self._is_unanswered = bool(self)

    def commit_was_answered(self) -> None:
        """Record that the commit was answered."""
        self._is_unanswered = False

    def leave_to_ttl(self) -> None:
        """Leave all leases to their ttl."""
        for one in self._take_all():
            one.leave_to_ttl()

    async def settle(self) -> None:
        """Release all leases, or leave them to their ttl if a commit was sent and not answered."""
        if self._is_unanswered:
            self.leave_to_ttl()
        else:
            await self.end()

    async def end(self) -> None:
        """Release all leases, even if a release fails; raise an interrupt or cancellation last."""
        await runtime.shield(_end_all(self._take_all()))

    def _take_all(self) -> list[AsyncTie]:
        # Keep no tie, because its lost lease would make an unrelated later commit fail.
        with self._state:
            ties, self._ties = self._ties, []
            self._is_unanswered = False
        return ties


async def _end_all(ties: Iterable[AsyncTie]) -> None:
    async with runtime.ExitStack() as stack:
        for one in ties:
            stack.push_async_callback(one.end)


# The keys are sessions or connections, held weakly. Hooks are registered only once per target. They
# could pile up otherwise, because a hook cannot be removed while it runs, and a session may live as
# long as its process.
_ties_of: weakref.WeakKeyDictionary[object, AsyncTies] = weakref.WeakKeyDictionary()


def ties_of(target: object) -> tuple[AsyncTies, bool]:
    """Return the ties of the session or connection, and whether this call has created them."""
    found = _ties_of.get(target)
    if found is not None:
        return found, False
    return _ties_of.setdefault(target, AsyncTies()), True


# Blocks for a `with` statement that commit on exit, and hold a lease until then.


class AsyncCommitBlock:
    """A block that commits on exit if the lease is still held, and then releases the lease."""

    def __init__(
        self,
        ties: AsyncTies,
        transaction: Any,  # noqa: ANN401 - any driver
        *,
        is_over: Callable[[], bool],
        is_unanswered: Callable[[], bool] | None = None,
    ) -> None:
        self._ties = ties
        self._transaction = transaction
        self._is_over = is_over
        self._is_unanswered = is_unanswered

    async def __aenter__(self) -> Any:  # noqa: ANN401
        return await self._transaction.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Any:  # noqa: ANN401
        leave = partial(self._leave, kind, error, trace)
        # After an error the block rolls back, so there is no commit that could be unanswered.
        is_unanswered = self._is_unanswered if kind is None else None
        return await self._ties.end_with(leave, is_over=self._is_over, is_unanswered=is_unanswered)

    async def _leave(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Any:  # noqa: ANN401
        leave = self._transaction.__aexit__
        if kind is None:
            try:
                self._ties.check()
            except BaseException as refused:
                await leave(type(refused), refused, refused.__traceback__)
                raise
        return await leave(kind, error, trace)


class AsyncTyingBlock(AsyncCommitBlock):
    """A block that ties the lease on entry; if never entered, the caller keeps the lease."""

    def __init__(
        self,
        lease: AsyncLease,
        transaction: Any,  # noqa: ANN401 - any driver
        *,
        is_over: Callable[[], bool],
    ) -> None:
        super().__init__(AsyncTies(), transaction, is_over=is_over)
        self._lease = lease
        self._was_entered = False

    async def __aenter__(self) -> Any:  # noqa: ANN401
        self._was_entered = True
        # Tie the lease last. If entering fails, `__aexit__` is not called, and nothing would end
        # the tie.
        entered = await super().__aenter__()
        self._ties.add(self._lease)
        return entered

    def __del__(self) -> None:
        # The attribute is missing if an interrupt ended the constructor.
        if not getattr(self, "_was_entered", True):
            warnings.warn(
                f"the lease on {self._lease.name!r} was not held until the commit: what "
                "hold_until_commit returned was not used in a `with` statement",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )


# How each library announces the end of a transaction, and whether a hook can prevent a commit.

ACCEPTED_SESSIONS = (
    "a session or connection of SQLAlchemy's, a connection of psycopg's, PyMySQL's or sqlite3's, "
    "or `django.db.transaction`"
)
PSYCOPG_IDLE = 0
"""psycopg's status for a connection that is not in a transaction."""


def tie(lease: AsyncLease, transaction: Any) -> AsyncCommitBlock | None:  # noqa: ANN401
    """Tie the lease to the transaction; return a block if only its exit shows the end."""
    target = _in_this_flavour(transaction)
    roots = {one.__module__.partition(".")[0] for one in type(target).__mro__}
    if "sqlalchemy" in roots and hasattr(target, "in_transaction"):
        _tie_to_sqlalchemy(lease, target)
    elif roots & {"psycopg", "pymysql"} and hasattr(target, "rollback"):
        [library] = roots & {"psycopg", "pymysql"}
        _tie_to_connection(lease, target, library)
    elif "sqlite3" in roots and hasattr(target, "rollback"):
        return _sqlite_block(lease, target)
    elif "django" in roots or getattr(target, "__name__", "") == "django.db.transaction":
        _tie_to_django(lease, target)
    else:
        raise ConfigurationError(
            f"{_named(transaction)} is no transaction that is known here: give {ACCEPTED_SESSIONS}"
        )
    return None


def _in_this_flavour(transaction: Any) -> Any:  # noqa: ANN401 - any driver
    """Return the object on which hooks are registered; refuse an object of the other flavour."""
    if type(transaction).__name__ in {"scoped_session", "async_scoped_session"}:
        transaction = transaction()
    is_asyncio = type(transaction).__name__.startswith("Async")
    if is_asyncio is not bool(SYNC_FORM):
        raise ConfigurationError(
            f"{_named(transaction)} and a lease of the {runtime.FLAVOUR} flavour do not go "
            f"together: take the lease from {runtime.OTHER_CLIENT}"
        )
    for one in SYNC_FORM:
        if hasattr(type(transaction), one) or hasattr(transaction, one):
            return getattr(transaction, one)
    return transaction


def _named(transaction: object) -> str:
    kind = type(transaction)
    return f"{kind.__module__}.{kind.__qualname__}"


# -- SQLAlchemy ------------------------------------------------------------------------


def _tie_to_sqlalchemy(lease: AsyncLease, target: Any) -> None:  # noqa: ANN401
    lease.check()
    if hasattr(target.get_transaction(), "xid"):
        raise ConfigurationError(
            "this connection is in a two-phase transaction, whose end is not seen here: begin it "
            "in one phase"
        )
    if not target.in_transaction():
        _begin(target)
    ties, is_new = ties_of(target)
    ties.add(lease)
    if not is_new:
        return
    listen = import_module("sqlalchemy.event").listen
    if hasattr(target, "get_bind"):
        listen(target, "before_commit", lambda _session: ties.check())
        listen(target, "after_commit", lambda _session: ties.commit_was_answered())
        listen(target, "after_transaction_end", partial(_session_ended, ties))
        watch = partial(_watch_commits, ties, weakref.WeakSet())
        listen(target, "after_begin", lambda _session, _transaction, one: watch(one))
        # Connections that joined the transaction before now are listed nowhere else.
        for one, *_ in set(target.get_transaction()._connections.values()):  # noqa: SLF001
            watch(one)
    else:
        listen(target, "commit", partial(_on_commit, ties))
        listen(target, "rollback", partial(_on_rollback, ties))


def _begin(target: Any) -> None:  # noqa: ANN401
    """Begin now, because a transaction that ends before its first statement triggers no event."""
    # In asyncio, a `begin` listener may query the database, and this code cannot await the query.
    has_begin_listeners = bool(SYNC_FORM) and bool(getattr(target.dispatch, "begin", False))
    if has_begin_listeners or not getattr(target, "autobegin", True):
        raise ConfigurationError(
            f"{_named(target)} is in no transaction, and none can be begun for it here (it has "
            "autobegin=False, or listeners for the event `begin`): begin it first, and give it then"
        )
    target.begin()


def _session_ended(ties: AsyncTies, _session: object, transaction: Any) -> None:  # noqa: ANN401
    # With a parent, only a savepoint has ended, and the transaction continues.
    if transaction.parent is None:
        wait_in_hook(ties.settle())


def _watch_commits(ties: AsyncTies, watched: weakref.WeakSet[Any], connection: Any) -> None:  # noqa: ANN401
    """Track the outcome of commits on a session's connection; no session event reports it."""
    if connection in watched:
        return
    watched.add(connection)
    listen = import_module("sqlalchemy.event").listen
    listen(connection, "commit", partial(_commit_now, ties))
    # We cannot execute a two-phase commit from here. So any such commit counts as unanswered until
    # SQLAlchemy reports its success.
    listen(connection, "commit_twophase", lambda *_: ties.commit_was_sent())


def _on_commit(ties: AsyncTies, connection: Any) -> None:  # noqa: ANN401
    if not ties:
        return
    try:
        ties.check()
    except BaseException:
        with suppress(Exception):  # the first of the two errors is the cause
            _on_rollback(ties, connection)
        raise
    try:
        _commit_now(ties, connection)
    except BaseException:
        wait_in_hook(ties.settle())
        raise
    wait_in_hook(ties.end())


def _commit_now(ties: AsyncTies, connection: Any) -> None:  # noqa: ANN401
    """Commit here, and record whether the commit was answered.

    SQLAlchemy only announces that a connection is about to commit. So we commit here, and when
    SQLAlchemy then commits, nothing is left to commit.
    """
    if not ties:
        return
    # This raises if the connection was lost before, and then nothing is sent.
    driver = connection.connection
    is_answered = False
    try:
        _call_driver(connection, connection.dialect.do_commit, driver)
        is_answered = True
    except BaseException:
        # The caller may continue to use the connection, so roll back what the database rejected.
        # SQLAlchemy's own rollback does not reach the driver from here. If the connection answers
        # the rollback, it has also answered the commit before.
        with suppress(Exception):  # the first of the two errors is the cause
            is_answered = _roll_back_now(connection)
        raise
    finally:
        if not is_answered:
            ties.leave_to_ttl()


def _on_rollback(ties: AsyncTies, connection: Any) -> None:  # noqa: ANN401
    if not ties:
        return
    try:
        _roll_back_now(connection)
    finally:
        wait_in_hook(ties.end())


def _roll_back_now(connection: Any) -> bool:  # noqa: ANN401
    """Roll back; return whether there was a live connection, which has then replied."""
    if connection.closed or connection.invalidated:
        return False
    try:
        _call_driver(connection, connection.dialect.do_rollback, connection.connection)
    except BaseException:
        # The connection's state is unknown now, so invalidate it, as SQLAlchemy's pool does.
        if not (connection.closed or connection.invalidated):
            connection.invalidate()
        raise
    return True


def _call_driver(connection: Any, act: Callable[[Any], None], driver: Any) -> None:  # noqa: ANN401
    """Call the driver in the way SQLAlchemy does, because callers expect SQLAlchemy's errors."""
    try:
        act(driver)
    except BaseException as error:  # noqa: BLE001 - raised again, perhaps in another form
        connection._handle_dbapi_exception(error, None, None, None, None)  # noqa: SLF001


# -- drivers ---------------------------------------------------------------------------


def _tie_to_connection(lease: AsyncLease, connection: Any, library: str) -> None:  # noqa: ANN401
    """Replace the connection's own methods, because a driver has no hooks."""
    _refuse_unseen(connection)
    ties, is_new = ties_of(connection)
    ties.add(lease)
    if is_new:
        mine = weakref.ref(connection)
        for name in ("commit", "rollback", "close"):
            setattr(connection, name, partial(_end_transaction, mine, ties, library, name))
        if hasattr(connection, "transaction"):
            connection.transaction = partial(_transaction, mine, ties)


def _refuse_unseen(connection: Any) -> None:  # noqa: ANN401
    """Refuse a transaction whose end would go unnoticed."""
    if hasattr(connection, "get_autocommit"):
        is_unseen = connection.get_autocommit() and not connection.server_status & 1
    else:
        # The nesting depth of `transaction()` blocks, which psycopg exposes nowhere else.
        is_unseen = getattr(connection, "_num_transactions", 0) > 0
    if is_unseen:
        raise ConfigurationError(
            "the end of this transaction cannot be seen: give a connection of PyMySQL's that does "
            "not commit each statement by itself (autocommit), and one of psycopg's before its "
            "block of `transaction()` is entered"
        )


async def _end_transaction(connection: Any, ties: AsyncTies, library: str, verb: str) -> None:  # noqa: ANN401
    """Call the method of that name; release the leases if it has ended the transaction."""
    one = connection()
    can_be_sent = False
    if verb == "commit":
        ties.check()
        can_be_sent = not is_closed(one, library)
    await ties.end_with(
        partial(getattr(type(one), verb), one),
        is_over=partial(is_over, one, library),
        is_unanswered=partial(is_unanswered, one, library) if can_be_sent else None,
        settles=verb != "close",
    )


def _sqlite_block(lease: AsyncLease, connection: Any) -> AsyncTyingBlock:  # noqa: ANN401
    """Return a block that ties the lease on entry, as sqlite3 signals only a block's exit."""
    lease.check()
    if getattr(connection, "autocommit", None) is True:
        raise ConfigurationError(
            "this connection of sqlite3's was opened with autocommit=True, and leaves its block "
            "without a commit or a rollback: open it with autocommit=False, or without that option"
        )
    return AsyncTyingBlock(lease, connection, is_over=partial(is_over, connection, "sqlite3"))


def _transaction(connection: Any, ties: AsyncTies, *args: Any, **options: Any) -> Any:  # noqa: ANN401
    """Return psycopg's `transaction()` block; the outermost block releases the tied leases."""
    one = connection()
    block = type(one).transaction(one, *args, **options)
    is_outermost = one.info.transaction_status == PSYCOPG_IDLE
    if not is_outermost:
        return block
    return AsyncCommitBlock(
        ties,
        block,
        is_over=partial(is_over, one, "psycopg"),
        is_unanswered=partial(is_unanswered, one, "psycopg"),
    )


# -- Django ----------------------------------------------------------------------------


def _tie_to_django(lease: AsyncLease, target: Any) -> None:  # noqa: ANN401
    connection = target.get_connection() if hasattr(target, "get_connection") else target
    if not connection.in_atomic_block:
        raise ConfigurationError(
            "Django is in no transaction here, and would call at once what waits for the commit: "
            "enter transaction.atomic() first"
        )
    connection.on_commit(_AfterCommit(AsyncTie(lease), connection))


class _AfterCommit:
    """A hook that Django calls after a commit, and silently drops in every other case.

    After a rollback, the tie is dropped with the hook, and the client releases the lease in the
    background. Django resets `errors_occurred` if a rollback was answered, but not if the
    connection was lost, perhaps in the middle of the commit.
    """

    def __init__(self, tie: AsyncTie, connection: Any) -> None:  # noqa: ANN401 - Django's
        self._tie: AsyncTie | None = tie
        self._connection = connection

    def __call__(self) -> None:
        if self._tie is not None:
            tie, self._tie = self._tie, None
            wait_in_hook(tie.end())

    def __del__(self) -> None:
        tie = getattr(self, "_tie", None)  # None if an interrupt ended the constructor
        if tie is not None and self._connection.errors_occurred:
            tie.run_out_if_dropped()
