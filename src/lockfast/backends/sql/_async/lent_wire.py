"""What makes a store's wire one whose connections the application lends."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockfast.backends.sql._async.lending import AsyncLender
    from lockfast.runtime.clock import Clock


class AsyncLentWire:
    """The lender of a wire; stands before the store's own among the bases of its class."""

    def __init__(self, lender: AsyncLender, *, clock: Clock, most: int) -> None:
        if lender.room is not None:
            # One is left to listen on, or for the application.
            most = max(1, min(most, lender.room - 1))
        super().__init__(lender, clock=clock, most=most)  # type: ignore[call-arg]
        self.room = lender.room
        self._lender = lender

    async def close(self) -> None:
        """Return when all that was lent is back."""
        await super().close()  # type: ignore[misc]
        await self._lender.close()

    def after_fork_in_child(self) -> None:
        """Begin with nothing of the parent's."""
        self._lender.after_fork_in_child()
        super().after_fork_in_child()  # type: ignore[misc]
