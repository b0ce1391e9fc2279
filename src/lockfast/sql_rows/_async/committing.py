"""How each library says that a transaction is over, and whether it can be kept from committing."""

from __future__ import annotations

import weakref
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lockfast.errors import ConfigurationError
from lockfast.runtime import aio as runtime
from lockfast.sql_rows._async.commit_blocks import AsyncCommitBlock, AsyncTyingBlock
from lockfast.sql_rows._async.ties import AsyncTie, AsyncTies, ties_of
from lockfast.sql_rows.ending.aio import SYNC_FORM, waited_for
from lockfast.sql_rows.transactions import is_closed, is_over, is_unanswered

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast._async.lease import AsyncLease

ACCEPTED = (
    "a session or connection of SQLAlchemy's, a connection of psycopg's, PyMySQL's or sqlite3's, "
    "or `django.db.transaction`"
)
IDLE = 0
"""What psycopg calls the state of a connection that is in no transaction."""


def tie(lease: AsyncLease, transaction: Any) -> AsyncCommitBlock | None:  # noqa: ANN401
    """Let the lease end with the transaction; a block where only leaving it says so."""
    target = _in_this_flavour(transaction)
    roots = {one.__module__.partition(".")[0] for one in type(target).__mro__}
    if "sqlalchemy" in roots and hasattr(target, "in_transaction"):
        _tie_to_sqlalchemy(lease, target)
    elif roots & {"psycopg", "pymysql"} and hasattr(target, "rollback"):
        [library] = roots & {"psycopg", "pymysql"}
        _tie_to_connection(lease, target, library)
    elif "sqlite3" in roots and hasattr(target, "rollback"):
        return _block_of_sqlite(lease, target)
    elif "django" in roots or getattr(target, "__name__", "") == "django.db.transaction":
        _tie_to_django(lease, target)
    else:
        raise ConfigurationError(
            f"{_named(transaction)} is no transaction that is known here: give {ACCEPTED}"
        )
    return None


def _in_this_flavour(transaction: Any) -> Any:  # noqa: ANN401 - anybody's
    """Return what has the hooks; refuse what belongs to the other flavour."""
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
        # Those that had begun before are listed nowhere else.
        for one, *_ in set(target.get_transaction()._connections.values()):  # noqa: SLF001
            watch(one)
    else:
        listen(target, "commit", partial(_commits, ties))
        listen(target, "rollback", partial(_rolls_back, ties))


def _begin(target: Any) -> None:  # noqa: ANN401
    """Begin what would begin by the first statement: of an end before that nobody tells."""
    # In asyncio nobody can await here what listeners ask of the database when it begins.
    are_asking = bool(SYNC_FORM) and bool(getattr(target.dispatch, "begin", False))
    if are_asking or not getattr(target, "autobegin", True):
        raise ConfigurationError(
            f"{_named(target)} is in no transaction, and none can be begun for it here (it has "
            "autobegin=False, or listeners for the event `begin`): begin it first, and give it then"
        )
    target.begin()


def _session_ended(ties: AsyncTies, _session: object, transaction: Any) -> None:  # noqa: ANN401
    if transaction.parent is None:  # else a savepoint is over, and the rest goes on
        waited_for(ties.settle())


def _watch_commits(ties: AsyncTies, watched: weakref.WeakSet[Any], connection: Any) -> None:  # noqa: ANN401
    """See what comes of the commits of a connection that a session uses, whose hooks tell not."""
    if connection in watched:
        return
    watched.add(connection)
    listen = import_module("sqlalchemy.event").listen
    listen(connection, "commit", partial(_commit_now, ties))
    # In two phases it cannot be done from here: one that fails counts as not answered.
    listen(connection, "commit_twophase", lambda *_: ties.commit_was_sent())


def _commits(ties: AsyncTies, connection: Any) -> None:  # noqa: ANN401
    if not ties:
        return
    try:
        ties.check()
    except BaseException:
        with suppress(Exception):  # of the two errors the first one tells what happened
            _rolls_back(ties, connection)
        raise
    try:
        _commit_now(ties, connection)
    except BaseException:
        waited_for(ties.settle())
        raise
    waited_for(ties.end())


def _commit_now(ties: AsyncTies, connection: Any) -> None:  # noqa: ANN401
    """Commit here, and know whether that was answered.

    A connection tells only that it is about to commit. So it is done here, and once more by
    SQLAlchemy, when nothing is left to commit.
    """
    if not ties:
        return
    driver = connection.connection  # raises if it was lost before: then nothing is sent
    is_answered = False
    try:
        _do(connection, connection.dialect.do_commit, driver)
        is_answered = True
    except BaseException:
        # The caller may go on with the connection: nothing of what was refused by the database
        # may stay in it. SQLAlchemy's own rollback does not reach the driver from here. And a
        # connection that answers a rollback has answered the commit before it.
        with suppress(Exception):  # of the two errors the first one tells what happened
            is_answered = _roll_back_now(connection)
        raise
    finally:
        if not is_answered:
            ties.run_out()


def _rolls_back(ties: AsyncTies, connection: Any) -> None:  # noqa: ANN401
    if not ties:
        return
    try:
        _roll_back_now(connection)
    finally:
        waited_for(ties.end())


def _roll_back_now(connection: Any) -> bool:  # noqa: ANN401
    """Whether there was a connection to roll back by, which has then answered."""
    if connection.closed or connection.invalidated:
        return False
    try:
        _do(connection, connection.dialect.do_rollback, connection.connection)
    except BaseException:
        # Nobody knows what it is in now. It is given up, as SQLAlchemy's pool does.
        if not (connection.closed or connection.invalidated):
            connection.invalidate()
        raise
    return True


def _do(connection: Any, act: Callable[[Any], None], driver: Any) -> None:  # noqa: ANN401
    """Do it as SQLAlchemy does: its callers wait for its errors, not for the driver's."""
    try:
        act(driver)
    except BaseException as error:  # noqa: BLE001 - it is raised again, in whichever form
        connection._handle_dbapi_exception(error, None, None, None, None)  # noqa: SLF001


# -- drivers ---------------------------------------------------------------------------


def _tie_to_connection(lease: AsyncLease, connection: Any, library: str) -> None:  # noqa: ANN401
    """Let the connection's own methods see to it: a driver has no hooks."""
    _refuse_unseen(connection)
    ties, is_new = ties_of(connection)
    ties.add(lease)
    if is_new:
        mine = weakref.ref(connection)
        for name in ("commit", "rollback", "close"):
            setattr(connection, name, partial(_ends, mine, ties, library, name))
        if hasattr(connection, "transaction"):
            connection.transaction = partial(_transaction, mine, ties)


def _refuse_unseen(connection: Any) -> None:  # noqa: ANN401
    """Refuse a transaction whose end nobody would tell of."""
    if hasattr(connection, "get_autocommit"):
        is_unseen = connection.get_autocommit() and not connection.server_status & 1
    else:
        # How deep it is in blocks of `transaction()`, which is told nowhere else.
        is_unseen = getattr(connection, "_num_transactions", 0) > 0
    if is_unseen:
        raise ConfigurationError(
            "the end of this transaction cannot be seen: give a connection of PyMySQL's that does "
            "not commit each statement by itself (autocommit), and one of psycopg's before its "
            "block of `transaction()` is entered"
        )


async def _ends(connection: Any, ties: AsyncTies, library: str, verb: str) -> None:  # noqa: ANN401
    """Do what the method of that name does, and release what was tied to the transaction."""
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


def _block_of_sqlite(lease: AsyncLease, connection: Any) -> AsyncTyingBlock:  # noqa: ANN401
    """Return what ties the lease when it is entered: leaving a block is all that sqlite3 tells."""
    lease.check()
    if getattr(connection, "autocommit", None) is True:
        raise ConfigurationError(
            "this connection of sqlite3's was opened with autocommit=True, and leaves its block "
            "without a commit or a rollback: open it with autocommit=False, or without that option"
        )
    return AsyncTyingBlock(lease, connection, is_over=partial(is_over, connection, "sqlite3"))


def _transaction(connection: Any, ties: AsyncTies, *args: Any, **options: Any) -> Any:  # noqa: ANN401
    """Return what `transaction()` of psycopg's does; the outermost releases what was tied."""
    one = connection()
    block = type(one).transaction(one, *args, **options)
    is_outermost = one.info.transaction_status == IDLE
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
    """What Django calls after the commit, and drops without a word after anything else.

    After a rollback the tie is dropped too, and the client's background releases the lease. Django
    resets `errors_occurred` when a rollback was answered; it does not when the connection was
    lost, perhaps in the middle of the commit.
    """

    def __init__(self, tie: AsyncTie, connection: Any) -> None:  # noqa: ANN401 - Django's
        self._tie: AsyncTie | None = tie
        self._connection = connection

    def __call__(self) -> None:
        if self._tie is not None:
            tie, self._tie = self._tie, None
            waited_for(tie.end())

    def __del__(self) -> None:
        tie = getattr(self, "_tie", None)  # None if it was interrupted before it was made
        if tie is not None and self._connection.errors_occurred:
            tie.run_out_if_dropped()
