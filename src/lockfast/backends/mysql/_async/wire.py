"""The way to a MySQL or MariaDB server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.mysql import refusals
from lockfast.backends.mysql.link.aio import DriverError, Link
from lockfast.backends.mysql.session import FRAMING, GREETING, SETTINGS, check_greeting
from lockfast.backends.sql._async.wire import MOST, AsyncWire
from lockfast.errors import BackendUnavailable, LockError
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from lockfast.backends.mysql.addresses import Address
    from lockfast.runtime.clock import Clock


class AsyncMysqlWire(AsyncWire[Link]):
    """The connections to one server."""

    def __init__(self, address: Address, *, clock: Clock, most: int = MOST) -> None:
        super().__init__(
            where=address.where,
            refusals=refusals,
            errors=(DriverError,),
            framing=FRAMING,
            clock=clock,
            most=most,
        )
        self._address = address
        self._is_greeted = False

    def _unconnected(self) -> Link:
        return Link(clock=self._clock, where=self.where)

    async def _connect(self, link: Link, deadline: float) -> None:
        try:
            await link.connect(self._address, deadline=deadline)
            # Of the clock it is asked once, where each request has another connection.
            greeting = SETTINGS if link.is_lent and self._is_greeted else GREETING
            answers = await link.exchange(greeting, deadline=deadline)
        except LockError:
            raise
        except TimeoutError as error:
            raise BackendUnavailable(f"{self.where} did not answer in time") from error
        except Exception as error:
            # Whatever the driver makes of it: a stranger at that port may say anything.
            raise refusals.unreachable(error, where=self.where) from error
        if greeting is GREETING:
            check_greeting(answers, where=self.where)
            self._is_greeted = True

    async def close(self) -> None:
        """Close every connection: now, or when its request has ended."""
        await super().close()
        # The loop closes the sockets in its next turns, and may be about to end.
        for _ in range(3):  # async only
            await runtime.sleep(0)  # async only
