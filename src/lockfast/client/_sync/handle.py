# Generated from src/lockfast/client/_async/handle.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Handles: one acquire's share in a hold, as seen by the lock and the hold; and sets of handles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    import weakref
    from collections.abc import Sequence

    from lockfast.client._sync.acquisition import AcquireGroup
    from lockfast.client._sync.client import Client
    from lockfast.client._sync.hold import Hold
    from lockfast.client._sync.lease import Lease
    from lockfast.client._sync.lock import Lock


T = TypeVar("T")

# A set that usually has one element, and is then represented by the element itself.
#
# Python's garbage collector visits every live container again and again. With a list around each
# handle, block and hold, a thousand holds would keep the collector busy. So a single element is
# stored directly, and a container is created only for the second element. Callers must assign the
# results of these functions, as in `kept = added(kept, one)`.


class SeveralItems(dict[T, None]):
    """Two or more elements, in insertion order, with fast lookup among thousands."""

    __slots__ = ()


SmallSet: TypeAlias = T | SeveralItems[T] | None
"""Nothing, one element, or several; an element is never None, and is compared by identity."""


def added(some: SmallSet[T], one: T) -> SmallSet[T]:
    """Return the set with one more element at its end."""
    if some is None:
        return one
    if isinstance(some, SeveralItems):
        some[one] = None
        return some
    return SeveralItems({some: None, one: None})


def without(some: SmallSet[T], one: T) -> SmallSet[T]:
    """Return the set without this element; removing an absent element changes nothing."""
    if some is one:
        return None
    if isinstance(some, SeveralItems):
        some.pop(one, None)
        if len(some) <= 1:  # may be empty, if an interrupt struck before an assignment
            return next(iter(some), None)
    return some


def each(some: SmallSet[T]) -> tuple[T, ...]:
    """Return the current elements."""
    if some is None:
        return ()
    return tuple(some) if isinstance(some, SeveralItems) else (some,)


# The handle, and what guards its release.


class Handle:
    """A share in a hold, which is released exactly once; used only under the client's state lock.

    The caller's lease is referenced only weakly. A caller that drops its lease may still call
    `lock.release()`, as long as its thread or task has not ended.
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
        self, hold: Hold, lock: weakref.ref[Lock], together: AcquireGroup | None = None
    ) -> None:
        self.hold: Hold = hold
        self.lock: weakref.ref[Lock] = lock
        self.together: AcquireGroup | None = together
        self.lease: weakref.ref[Lease] | None = None
        self.is_released: bool = False
        self.is_ended: bool = False
        self.is_left_behind: bool = False
        """Whether the handle was left to the background after an interrupt. The background ends
        such a handle, because no caller has it.
        """
        self.ended_by: str = "released"

    def is_kept(self) -> bool:
        """Return whether the caller still has the lease."""
        return self.lease is not None and self.lease() is not None

    def is_under_way(self) -> bool:
        """Return whether the handle is acquired together with others that no caller has yet."""
        return self.together is not None and self.together.owes

    def end(self) -> None:
        """Mark the handle as ended; its release is done, or continues in the background."""
        self.is_ended = True
        lock = self.lock()
        if lock is not None:
            lock.forget(self)


class ReleaseGuard:
    """Handles that must be ended; only the code that is about to end them references this object.

    In threads an interrupt (an exception from a signal handler or a time limit) can be raised at
    any call, even before the `try` or inside the `except` that would have cleaned up. So cleanup
    does not rely on `try` and `except` alone. When the frames that should have ended the handles
    are gone, Python drops this object, and the client's background ends the handles that are left.
    """

    handles: Sequence[Handle] = ()  # the value if `__init__` is interrupted

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

    def leave_to_ttl(self) -> None:
        """Leave the handles to their ttl instead of ending them; takes no lock, for finalizers."""
        self._runs_out = True

    def fulfil(self) -> None:
        """Drop the obligation; the handles were ended, or a repeated release may end them."""
        self.handles = ()

    def clear_up(self) -> None:
        """End those handles, in the background, that were not ended before."""
        if self._entered is not None:
            self._entered.discard(self._block)
        for handle in self.handles:
            if handle.is_ended:
                continue
            if self._runs_out:
                handle.hold.leave_to_ttl()
            else:
                self._client.leave(handle)

    def __del__(self) -> None:
        # A finalizer may run anywhere, even inside a step that another lock protects, so do no more
        # here than necessary.
        for handle in self.handles:
            if not handle.is_ended:
                self._client.left_behind(self)
                return


# The `with` blocks that were entered through one shared object, and the thread or task that entered
# each block.


class Entered(Protocol):
    """A block that records which thread or task entered it."""

    @property
    def entered_by(self) -> weakref.ref[runtime.Context]:
        """The thread or task that entered the block."""
        ...


B = TypeVar("B", bound=Entered)


class OpenBlocks(Generic[B]):
    """The open blocks, in order of entry."""

    __slots__ = ("_blocks", "_client")

    def __init__(self, client: Client) -> None:
        self._client = client
        self._blocks: SmallSet[B] = None

    def push(self, block: B) -> None:
        """Record that the current thread or task has entered the block."""
        with self._client.state:
            self._blocks = added(self._blocks, block)

    def pop(self) -> B:
        """Remove and return the innermost block of the current thread or task, which is leaving it.

        A thread or task may also leave a block that it did not enter (in a fixture or an exit
        stack). In that case, the thread or task that entered the block has most likely ended.
        """
        with self._client.state:
            only = self._blocks
            if only is not None and not isinstance(only, SeveralItems):
                self._blocks = None
                return only
            blocks = each(self._blocks)
            if len(blocks) > 1:
                context = runtime.context()
                mine = [one for one in blocks if one.entered_by() is context]
                blocks = tuple(
                    mine or [one for one in blocks if _is_gone(one.entered_by())] or blocks
                )
            innermost = blocks[-1]
            self._blocks = without(self._blocks, innermost)
            return innermost

    def discard(self, block: B) -> None:
        """Forget a block that was ended in another way, if the block is recorded here."""
        with self._client.state:
            self._blocks = without(self._blocks, block)


def _is_gone(owner: runtime.Context | None) -> bool:
    return owner is None or runtime.has_ended(owner)
