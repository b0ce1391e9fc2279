# Generated from src/lockfast/sql_rows/_async/commit_blocks.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Blocks of a `with` statement that commit when they are left, and hold a lease until then."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

from lockfast.sql_rows._sync.ties import Ties

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from lockfast._sync.lease import Lease


class CommitBlock:
    """A block that commits when it is left, if the lease is still ours, and then releases it."""

    def __init__(
        self,
        ties: Ties,
        transaction: Any,  # noqa: ANN401 - anybody's
        *,
        is_over: Callable[[], bool],
        is_unanswered: Callable[[], bool] | None = None,
    ) -> None:
        self._ties = ties
        self._transaction = transaction
        self._is_over = is_over
        self._is_unanswered = is_unanswered

    def __enter__(self) -> Any:  # noqa: ANN401
        return self._transaction.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Any:  # noqa: ANN401
        leave = partial(self._leave, kind, error, trace)
        is_unanswered = self._is_unanswered if kind is None else None  # else it rolls back
        return self._ties.end_with(leave, is_over=self._is_over, is_unanswered=is_unanswered)

    def _leave(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Any:  # noqa: ANN401
        leave = self._transaction.__exit__
        if kind is None:
            try:
                self._ties.check()
            except BaseException as refused:
                leave(type(refused), refused, refused.__traceback__)
                raise
        return leave(kind, error, trace)


class TyingBlock(CommitBlock):
    """One that ties the lease when it is entered; if it never is, the lease stays the caller's."""

    def __init__(
        self,
        lease: Lease,
        transaction: Any,  # noqa: ANN401 - anybody's
        *,
        is_over: Callable[[], bool],
    ) -> None:
        super().__init__(Ties(), transaction, is_over=is_over)
        self._lease = lease
        self._was_entered = False

    def __enter__(self) -> Any:  # noqa: ANN401
        self._was_entered = True
        # Tied last: a block that cannot be entered is not left either, and nobody would end it.
        entered = super().__enter__()
        self._ties.add(self._lease)
        return entered

    def __del__(self) -> None:
        # Without the attribute it was interrupted before it was made.
        if not getattr(self, "_was_entered", True):
            warnings.warn(
                f"the lease on {self._lease.name!r} was not held until the commit: what "
                "hold_until_commit returned was not used in a `with` statement",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )
