"""The subscription of the sync flavour: a connection of its own, read by one thread at a time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from psycopg import Error

from lockfast.backends.postgresql.subscription.proving import (
    PROVEN_WITHIN,
    given_up,
    listen_to,
    no_longer,
    unproven,
)
from lockfast.backends.sql.steps import Ask
from lockfast.runtime.reading import ReadByTurns

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.backends.postgresql.link.threads import Link
    from lockfast.runtime.clock import Clock

__all__ = ["Subscription"]


class Subscription(ReadByTurns["Link"]):
    """A connection of its own that hears one channel."""

    _broken_by = (OSError, Error)

    def __init__(
        self, link: Link, channel: str, hear: Callable[[str], None], *, clock: Clock
    ) -> None:
        super().__init__(link, clock=clock)
        self.proof: str = os.urandom(8).hex()
        self._is_proven = False
        self._is_given_up = False
        self._channel = channel
        self._hear = hear

    # -- beginning ---------------------------------------------------------------------

    def begin(self, *, deadline: float) -> None:
        """Hear the channel, if the server's words come through: see `prove`."""
        self._link.farewell = [Ask(no_longer(self._channel))]
        self._link.exchange([Ask(listen_to(self._channel))], deadline=deadline)

    def prove(self, *, deadline: float) -> None:
        """Return when the proof was heard that another connection has sent."""
        until = min(deadline, self._clock.now() + PROVEN_WITHIN)
        self._tell()
        while not self._is_proven and (left := until - self._clock.now()) > 0:
            if self._is_given_up:
                self._let_go()
                raise given_up(where=self._link.where)
            heard, _ = self._poll(self._link, self._nudges, left)
            if heard:
                self._read()
        if not self._is_proven:
            self._let_go()
            raise unproven(where=self._link.where)

    def give_up(self) -> None:
        """Let `prove` fail at once."""
        self._is_given_up = True
        self._nudges.give()

    def _let_go(self) -> None:
        self._kicks.close()
        self._nudges.close()

    # -- reading -----------------------------------------------------------------------

    def _read(self) -> None:
        self._link.connection.consume_input()
        self._tell()

    def _tell(self) -> None:
        """Tell of what libpq has already read."""
        connection = self._link.connection
        while (note := connection.notifies()) is not None:
            message = note.extra.decode()
            if message == self.proof:
                self._is_proven = True
            else:
                self._hear(message)

    def disinherit(self) -> None:
        """Leave the connection to the parent process, which still uses it."""
        self._is_closed = self._is_broken = True
        self._link.disinherit()
        self._kicks.close()
        self._nudges.close()
