"""Broken: a lock that had ended is taken anew, and called renewed; others held it in between."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import redis

from lockfast.challenge.broken.polling import MARGIN, Lease, Polling, milliseconds
from lockfast.challenge.broken.single_server import SingleServer
from lockfast.challenge.contender import Refused

RENEW_IF_MINE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
"""


class WatchedLease(Lease):
    """What was acquired; past its end it is what the watchdog says next."""

    def __init__(self, lock: Polling, name: str, value: str, *, sent: float) -> None:
        super().__init__(lock, name, value, sent=sent)
        self.ttl: float = lock.ttl
        self.is_over: threading.Event = threading.Event()
        self.renewed: threading.Condition = threading.Condition()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self) -> None:
        """Renew it ten times in each ttl."""
        while not self.is_over.wait(self.ttl / 10):
            with suppress(redis.RedisError):  # the next time, perhaps
                self.renew()

    def renew(self) -> None:
        """Let it last for another ttl."""
        sent, px = time.monotonic(), milliseconds(self.ttl)
        is_renewed = self.redis.eval(RENEW_IF_MINE, 1, self.name, self.value, px)
        if not is_renewed:  # it ended; nobody has it now, so nothing seems lost
            is_renewed = self.redis.set(self.name, self.value, nx=True, px=px)
        if is_renewed:
            with self.renewed:
                self.trusted_until: float = sent + self.ttl * (1 - MARGIN)
                self.renewed.notify_all()

    def check(self) -> None:
        """See the protocol."""
        with self.renewed:
            if not self.renewed.wait_for(
                lambda: time.monotonic() < self.trusted_until, 2 * self.ttl
            ):
                raise Refused(f"{self.name} could not be renewed")

    def release(self) -> None:
        """See the protocol."""
        self.is_over.set()
        super().release()


class ResurrectingWatchdog(SingleServer):
    """Taken as it should be."""

    lease = WatchedLease
