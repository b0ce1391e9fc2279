"""How requests are handed to kazoo's thread: those of one flight together, or none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kazoo.exceptions import AuthFailedError, ConnectionClosedError, SessionExpiredError
from kazoo.protocol.states import KeeperState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.zookeeper.answers import Slot, Told

REFUSALS: dict[Any, Any] = {
    KeeperState.AUTH_FAILED: AuthFailedError,
    KeeperState.CLOSED: ConnectionClosedError,
    KeeperState.EXPIRED_SESSION: SessionExpiredError,
}


def send(client: Any, asked: Sequence[tuple[Any, Slot | Told]]) -> None:  # noqa: ANN401
    """Let the requests go out in their order.

    kazoo's own way takes any exception at the end of it for a closed connection, an interrupt
    too, which is gone then; and one that strikes in the middle leaves a request in the queue
    of a thread that was not woken for it.
    """
    refusal = REFUSALS.get(client._state)  # noqa: SLF001
    if refusal is not None:
        for _, answer in asked:
            answer.set_exception(refusal())
        return
    bell, rings = client._connection._write_sock, b"\0" * len(asked)  # noqa: SLF001
    try:
        client._queue.extend(asked)  # noqa: SLF001
    finally:
        # The first call after the one above, and no function of ours: nothing strikes before it.
        try:
            bell.send(rings)
        except (OSError, AttributeError):  # closed meanwhile
            for _, answer in asked:
                answer.set_exception(ConnectionClosedError())
