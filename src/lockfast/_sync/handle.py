# Generated from src/lockfast/_async/handle.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""One acquire's share in a hold: what the lock and the hold know of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import weakref
    from collections.abc import Sequence

    from lockfast._sync.acquiring import Together
    from lockfast._sync.client import Client
    from lockfast._sync.hold import Hold
    from lockfast._sync.lease import Lease
    from lockfast._sync.lock import Lock
    from lockfast._sync.open_blocks import OpenBlocks


class Handle:
    """What is released exactly once; touched under the client's state lock.

    The caller's lease is known only weakly. Whoever drops it may still mean to call
    `lock.release()`, but not once its thread or task has ended.
    """

    __slots__ = (
        "__weakref__",
        "ended_by",
        "hold",
        "is_ended",
        "is_left_behind",
        "is_released",
        "lease",
        "lock",
        "together",
    )

    def __init__(
        self, hold: Hold, lock: weakref.ref[Lock], together: Together | None = None
    ) -> None:
        self.hold: Hold = hold
        self.lock: weakref.ref[Lock] = lock
        self.together: Together | None = together
        self.lease: weakref.ref[Lease] | None = None
        self.is_released: bool = False
        self.is_ended: bool = False
        self.is_left_behind: bool = False
        """Whether an interrupt has left it to the background, which ends it: nobody has it."""
        self.ended_by: str = "released"

    def is_kept(self) -> bool:
        """Whether somebody has the lease."""
        return self.lease is not None and self.lease() is not None

    def is_under_way(self) -> bool:
        """Whether it was acquired along with others, and no caller has any of them yet."""
        return self.together is not None and self.together.owes

    def end(self) -> None:
        """Owe nothing any more: it was released, or its release goes on in the background."""
        self.is_ended = True
        lock = self.lock()
        if lock is not None:
            lock.forget(self)


class Duty:
    """Handles that have to be ended, kept by whoever is about to do it, and by nobody else.

    In threads an interrupt (a signal's exception, a time limit's) is raised at any call: also
    before the `try` and inside the `except` that would have cleaned up. So cleaning up does not
    rest on these alone. When the frames that should have ended the handles are gone, Python drops
    this object, and what it still owes is left to the client's background.
    """

    handles: Sequence[Handle] = ()  # for one that is interrupted before it is made

    def __init__(
        self,
        client: Client,
        handles: Sequence[Handle],
        *,
        entered: OpenBlocks[Any] | None = None,
        block: object = None,
    ) -> None:
        self._client = client
        self.handles = handles
        self._entered = entered
        self._block = block
        self._runs_out = False

    def run_out(self) -> None:
        """Owe nothing but that they are left to their ttl; takes no lock, for finalizers."""
        self._runs_out = True

    def fulfil(self) -> None:
        """Owe nothing: they were ended, or may be ended by a repeat."""
        self.handles = ()

    def clear_up(self) -> None:
        """End, in the background, what was not."""
        if self._entered is not None:
            self._entered.discard(self._block)
        for handle in self.handles:
            if handle.is_ended:
                continue
            if self._runs_out:
                handle.hold.run_out()
            else:
                self._client.leave(handle)

    def __del__(self) -> None:
        # It may strike anywhere, also inside a step that another lock protects: no more than this.
        for handle in self.handles:
            if not handle.is_ended:
                self._client.left_behind(self)
                return
