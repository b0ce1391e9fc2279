"""What was entered by `with` through one shared object, and by whom."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Generic, TypeVar

from holdfast.runtime import aio as runtime

if TYPE_CHECKING:
    from holdfast._async.client import AsyncClient

T = TypeVar("T")


class AsyncOpenBlocks(Generic[T]):
    """The blocks that are open, in the order of entering."""

    __slots__ = ("_blocks", "_client")

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._blocks: list[tuple[T, weakref.ref[runtime.Context]]] = []

    def push(self, block: T, context: runtime.Context) -> None:
        """Know that this thread or task, the current one, has entered."""
        with self._client.state:
            self._blocks.append((block, weakref.ref(context)))

    def pop(self) -> T:
        """Return what the current thread or task leaves: the innermost that it entered.

        A block may also be left by another than entered it (a fixture, an exit stack), most
        likely one whose enterer has ended.
        """
        with self._client.state:
            blocks = self._blocks
            if len(blocks) > 1:
                context = runtime.context()
                mine = [i for i, (_, owner) in enumerate(blocks) if owner() is context]
                left = [i for i, (_, owner) in enumerate(blocks) if _is_gone(owner())]
                return blocks.pop((mine or left or [-1])[-1])[0]
            return blocks.pop()[0]

    def discard(self, block: T) -> None:
        """Forget a block that was ended otherwise, if it is here."""
        with self._client.state:
            self._blocks = [one for one in self._blocks if one[0] is not block]


def _is_gone(owner: runtime.Context | None) -> bool:
    return owner is None or runtime.has_ended(owner)
