"""What an inbox asks of a store whose server can ring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.runtime import aio as runtime


class AsyncSubscription(Protocol):
    """What hears a channel, on a connection of its own."""

    async def listen(self, *, until: float) -> bool:
        """Tell of what is heard until then, or until kicked; false once the link is broken."""
        ...

    async def attend(self, event: runtime.Event, *, deadline: float) -> None:
        """Return when the event is set or the deadline has passed."""
        ...

    def kick(self) -> None:
        """Let `listen` return."""
        ...

    def nudge(self) -> None:
        """Let whoever attends see that its event was set by somebody else."""
        ...

    def give_up(self) -> None:
        """Let whoever still opens it fail at once, from any thread."""
        ...

    async def close(self) -> None:
        """Hear no more."""
        ...

    def disinherit(self) -> None:
        """Leave the connection to the parent process, which still uses it."""
        ...


class AsyncEars(Protocol):
    """A wire on which a server's rings can be heard."""

    async def subscribe(
        self,
        channel: str,
        hear: Callable[[str], None],
        *,
        deadline: float,
        begun: Callable[[AsyncSubscription], None],
    ) -> AsyncSubscription:
        """Return a subscription that is proven to hear; `begun` is given it before that.

        Raises NoPush where what the server says unasked does not come through.
        """
        ...
