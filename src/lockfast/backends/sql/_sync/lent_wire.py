# Generated from src/lockfast/backends/sql/_async/lent_wire.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""What makes a store's wire one whose connections the application lends."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockfast.backends.sql._sync.lending import Lender
    from lockfast.runtime.clock import Clock


class LentWire:
    """The lender of a wire; stands before the store's own among the bases of its class."""

    def __init__(self, lender: Lender, *, clock: Clock, most: int) -> None:
        if lender.room is not None:
            # One is left to listen on, or for the application.
            most = max(1, min(most, lender.room - 1))
        super().__init__(lender, clock=clock, most=most)  # type: ignore[call-arg]
        self.room = lender.room
        self._lender = lender

    def close(self) -> None:
        """Return when all that was lent is back."""
        super().close()  # type: ignore[misc]
        self._lender.close()

    def after_fork_in_child(self) -> None:
        """Begin with nothing of the parent's."""
        self._lender.after_fork_in_child()
        super().after_fork_in_child()  # type: ignore[misc]
