"""A client that is closed while it still connects."""

from __future__ import annotations

import asyncio

import pytest

from lockfast import AsyncLocks, LockError


class SilentServer:
    """Accepts connections and answers nothing."""

    def __init__(self) -> None:
        self.met = asyncio.Event()
        self.served: list[asyncio.Task[None]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.served.append(asyncio.current_task())
        self.met.set()
        await reader.read()  # whatever arrives, until the client disconnects
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("scheme", ["redis", "redis+cluster"])
def test_who_waits_for_the_connection_is_told_and_not_cancelled(scheme):
    """The waiting acquire gets a LockError: a cancellation would end more than the acquire.

    The connection is closed as well.
    """

    async def run() -> None:
        silent = SilentServer()
        async with await asyncio.start_server(silent.serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            locks = AsyncLocks(f"{scheme}://127.0.0.1:{port}", request_timeout=0.5)
            acquiring = asyncio.create_task(locks.lock("door").acquire(timeout=10))
            await silent.met.wait()

            await locks.aclose()

            with pytest.raises(LockError):
                await acquiring
            async with asyncio.timeout(5):
                await asyncio.gather(*silent.served)

    asyncio.run(run())
