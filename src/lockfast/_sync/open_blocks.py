# Generated from src/lockfast/_async/open_blocks.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""What was entered by `with` through one shared object, and by whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from lockfast.core.mostly_one import Several, added, each, without
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    import weakref

    from lockfast._sync.client import Client
    from lockfast.core.mostly_one import MostlyOne


class Entered(Protocol):
    """A block, which knows who has entered it."""

    @property
    def whose(self) -> weakref.ref[runtime.Context]:
        """The thread or task that entered it."""
        ...


T = TypeVar("T", bound=Entered)


class OpenBlocks(Generic[T]):
    """The blocks that are open, in the order of entering."""

    __slots__ = ("_blocks", "_client")

    def __init__(self, client: Client) -> None:
        self._client = client
        self._blocks: MostlyOne[T] = None

    def push(self, block: T) -> None:
        """Know that this thread or task, the current one, has entered."""
        with self._client.state:
            self._blocks = added(self._blocks, block)

    def pop(self) -> T:
        """Return what the current thread or task leaves: the innermost that it entered.

        A block may also be left by another than entered it (a fixture, an exit stack), most
        likely one whose enterer has ended.
        """
        with self._client.state:
            only = self._blocks
            if only is not None and not isinstance(only, Several):
                self._blocks = None
                return only
            blocks = each(self._blocks)
            if len(blocks) > 1:
                context = runtime.context()
                mine = [one for one in blocks if one.whose() is context]
                blocks = tuple(mine or [one for one in blocks if _is_gone(one.whose())] or blocks)
            innermost = blocks[-1]
            self._blocks = without(self._blocks, innermost)
            return innermost

    def discard(self, block: T) -> None:
        """Forget a block that was ended otherwise, if it is here."""
        with self._client.state:
            self._blocks = without(self._blocks, block)


def _is_gone(owner: runtime.Context | None) -> bool:
    return owner is None or runtime.has_ended(owner)
