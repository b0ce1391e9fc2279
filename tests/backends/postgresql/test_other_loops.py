"""An event loop that cannot watch sockets, as on Windows, causes a clear error at once."""

from __future__ import annotations

import asyncio
import socket

import pytest

import lockfast


def test_a_loop_that_watches_no_sockets_is_refused_with_what_to_do(monkeypatch):
    def refuse(_loop: object, *_rest: object) -> None:
        raise NotImplementedError

    for watch in ("add_reader", "add_writer"):
        monkeypatch.setattr(asyncio.selector_events.BaseSelectorEventLoop, watch, refuse)

    async def scenario(port: int) -> None:
        async with lockfast.AsyncLocks(f"postgresql://127.0.0.1:{port}/shop") as locks:
            await locks.lock("door").acquire(timeout=0)

    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(lockfast.ConfigurationError, match="SelectorEventLoop"),
    ):
        asyncio.run(scenario(server.getsockname()[1]))
