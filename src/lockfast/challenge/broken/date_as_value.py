"""Broken: the end is a date by the holder's own clock, and whoever comes may write another one."""

from __future__ import annotations

import time

from lockfast.challenge.broken.polling import Polling
from lockfast.challenge.contender import Refused


class DateAsValue(Polling):
    """The value is the date at which the lock ends; GETSET takes over one that has passed."""

    def clock(self) -> float:
        """Return the date, as the machine of this client has it."""
        return time.time() + self.clock_ahead

    def try_acquire(self, name: str) -> DatedLease | None:
        """Ask once."""
        until = self.clock() + self.ttl
        if self.redis.setnx(name, until):
            return DatedLease(self, name, until)
        date = self.redis.get(name)
        if date is None or float(date) > self.clock():
            return None
        replaced = self.redis.getset(name, until)
        if replaced != date:  # another was faster; but the date that is stored now is ours
            return None
        return DatedLease(self, name, until)


class DatedLease:
    """What was acquired: it ends at a date."""

    token = None

    def __init__(self, lock: DateAsValue, name: str, until: float) -> None:
        self.lock = lock
        self.name = name
        self.until = until

    def check(self) -> None:
        """See the protocol."""
        if self.lock.clock() >= self.until:
            raise Refused(f"the date of {self.name} has passed")

    def release(self) -> None:
        """See the protocol."""
        self.check()
        self.lock.redis.delete(self.name)  # whosever it is by now
