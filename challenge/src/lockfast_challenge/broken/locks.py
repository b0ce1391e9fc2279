"""The broken locks, each with one flaw, and the controls without it."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import redis
from redis.exceptions import LockError

from lockfast_challenge.broken.polling import (
    DELETE_IF_MINE,
    MARGIN_FRACTION,
    PAUSE_RANGE_SECONDS,
    PolledLease,
    Polling,
    milliseconds,
    unique_value,
)
from lockfast_challenge.contender import NotGranted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast_challenge.contender import HeldLock


# A control: no client counts as a holder before the replica has the lock, and tokens follow the
# server's clock.

SET_AND_DATE = """
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
local now = redis.call('TIME')
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
local token = math.max(last + 1, now[1] * 1000000 + now[2])
redis.call('SET', KEYS[2], string.format('%.0f', token))
return token
"""


class Acknowledged(Polling):
    """A lock that the replica does not acknowledge in time is released and counts as never held.

    One acknowledgement is enough, because only this one replica can be promoted.
    """

    def try_acquire(self, name: str) -> PolledLease | None:
        mine, sent = unique_value(), time.monotonic()
        # Use one connection, because WAIT covers only the writes of its own connection.
        with self.redis.client() as redis:
            token = redis.eval(SET_AND_DATE, 2, name, f"{name}:token", mine, milliseconds(self.ttl))
            if not token:
                return None
            lease = PolledLease(self, name, mine, sent=sent)
            lease.token = token
            if redis.wait(1, milliseconds(self.ttl / 4)) >= 1:
                return lease
        with suppress(NotGranted):  # the lease has expired in the meantime
            lease.release()
        return None


# Broken: a promoted replica has not received the last counts, and issues the same tokens again.

SET_AND_COUNT = """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0
"""


class CountedToken(Polling):
    """Each holder gets the next number of a counter, so that its late writes can be refused."""

    def try_acquire(self, name: str) -> PolledLease | None:
        mine, sent = unique_value(), time.monotonic()
        token = self.redis.eval(
            SET_AND_COUNT, 2, name, f"{name}:token", mine, milliseconds(self.ttl)
        )
        if not token:
            return None
        lease = PolledLease(self, name, mine, sent=sent)
        lease.token = token
        return lease


# Broken: the lock expires by the holder's own wall clock, and any client may overwrite its value.


class DateAsValue(Polling):
    """The stored value is the time at which the lock expires; GETSET takes over an expired lock."""

    def clock(self) -> float:
        """Return the time on this client's wall clock."""
        return time.time() + self.clock_ahead

    def try_acquire(self, name: str) -> DatedLease | None:
        until = self.clock() + self.ttl
        if self.redis.setnx(name, until):
            return DatedLease(self, name, until)
        date = self.redis.get(name)
        if date is None or float(date) > self.clock():
            return None
        replaced = self.redis.getset(name, until)
        if replaced != date:  # another client was faster, but the stored time is now ours
            return None
        return DatedLease(self, name, until)


class DatedLease:
    """A lease that ends at a time on the client's wall clock."""

    token = None

    def __init__(self, lock: DateAsValue, name: str, until: float) -> None:
        self.lock = lock
        self.name = name
        self.until = until

    def check(self) -> None:
        if self.lock.clock() >= self.until:
            raise NotGranted(f"the date of {self.name} has passed")

    def release(self) -> None:
        self.check()
        self.lock.redis.delete(self.name)  # deletes the lock even if another client holds it now


# Broken: nodes that restart empty vote a second time.


class ForgetfulRedlock(Polling):
    """Redlock: a client that sets its value on most of the nodes in time holds the lock."""

    patience: float = 0.1

    def try_acquire(self, name: str) -> MajorityLease | None:
        """Ask each node once."""
        mine, sent = unique_value(), time.monotonic()
        lease = MajorityLease(self, name, mine, sent=sent)
        if is_majority(self.servers, lambda node: self.vote(node, name, mine)):
            return lease  # the lease may have ended already; then its first check fails
        lease.give_back()
        return None

    def vote(self, node: Any, name: str, mine: str) -> object:  # noqa: ANN401 - see connect
        """Ask this node for its vote."""
        return node.set(name, mine, nx=True, px=milliseconds(self.ttl))


class MajorityLease(PolledLease):
    """A lease on most of the nodes."""

    def give_back(self) -> bool:
        """Delete the value on every node; return whether most of them had it."""
        return is_majority(
            self.lock.servers, lambda node: node.eval(DELETE_IF_MINE, 1, self.name, self.value)
        )

    def release(self) -> None:
        if not self.give_back():
            raise NotGranted(f"{self.name} was no longer ours on most nodes")


def is_majority(nodes: Sequence[Any], ask: Callable[[Any], object]) -> bool:
    """Send a request to every node; return whether most of them said yes."""
    said_yes = 0
    for node in nodes:
        try:
            said_yes += bool(ask(node))
        except redis.RedisError:
            # The node may or may not have carried out the request, so this counts as no vote.
            continue
    return 2 * said_yes > len(nodes)


# Broken: the work may take longer than the lock lasts, and nothing notifies the worker.


class NeverRenewed(Polling):
    """The lock that comes with redis-py, with a timeout that seemed long enough."""

    def acquire(self, name: str, *, timeout: float) -> HeldLock:
        lock = self.redis.lock(name, timeout=self.ttl, sleep=PAUSE_RANGE_SECONDS[1])
        if not lock.acquire(blocking_timeout=timeout):
            raise NotGranted(f"{name} was held for all of {timeout:g} s")
        return UnwatchedLease(lock)


class UnwatchedLease:
    """A lease that counts as held until it is released."""

    token = None

    def __init__(self, lock: Any) -> None:  # noqa: ANN401 - as redis-py types it
        self.lock = lock

    def check(self) -> None:
        """Do nothing: this lock never notices that its lease has ended."""

    def release(self) -> None:
        try:
            self.lock.release()
        except LockError as error:
            raise NotGranted(str(error)) from error


# A control: Redlock whose nodes vote only after every lease that they may have forgotten has
# expired.

SET_IF_OLD_ENOUGH = """
local uptime = string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%d+)')
if tonumber(uptime) < tonumber(ARGV[3]) then return 0 end
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
"""


class PatientRedlock(ForgetfulRedlock):
    """Nodes may restart empty, so each votes only after it has been up longer than any lease."""

    def vote(self, node: Any, name: str, mine: str) -> object:  # noqa: ANN401 - see connect
        # Redis counts whole seconds, so an uptime of 2 may be little more than 1.
        age = int(self.ttl) + 2
        return node.eval(SET_IF_OLD_ENOUGH, 1, name, mine, milliseconds(self.ttl), age)


# Broken: a client that dies or is cut off between two requests leaves a lock that never expires.


class SetnxThenExpire(Polling):
    """SETNX takes the lock, and PEXPIRE makes it expire."""

    def try_acquire(self, name: str) -> PolledLease | None:
        mine, sent = unique_value(), time.monotonic()
        if not self.redis.setnx(name, mine):
            return None
        self.redis.pexpire(name, milliseconds(self.ttl))
        return PolledLease(self, name, mine, sent=sent)


# The control: a lock that is correct as long as its one server keeps what it has stored.


class SingleServer(Polling):
    """A lock that is set with a ttl, and deleted by its owner, in one step each.

    The holder does not trust it past its end.
    """

    lease = PolledLease

    def try_acquire(self, name: str) -> PolledLease | None:
        mine, sent = unique_value(), time.monotonic()
        if not self.redis.set(name, mine, nx=True, px=milliseconds(self.ttl)):
            return None
        return self.lease(self, name, mine, sent=sent)


# Broken: a release that comes too late deletes the lock of the next holder.


class BareLease(PolledLease):
    """A lease that is released with DEL, without checking who holds the lock by then."""

    def release(self) -> None:
        self.redis.delete(self.name)
        self.check()  # at least report that the release came too late


class BareDelete(SingleServer):
    """A lock that is acquired correctly, but released with a bare DEL."""

    lease = BareLease


# Broken: between the GET and the DEL the lock may expire and be granted to the next holder.


class ComparedLease(PolledLease):
    """A lease that is released by comparing first and deleting afterwards."""

    def release(self) -> None:
        if self.redis.get(self.name) != self.value:
            raise NotGranted(f"{self.name} was no longer ours")
        self.redis.delete(self.name)
        self.check()  # at least report that the release came too late


class CompareThenDelete(SingleServer):
    """A lock that is acquired correctly, but released in two steps."""

    lease = ComparedLease


# Broken: an expired lock is taken again and called renewed; others held it in between.

RENEW_IF_MINE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
"""


class WatchedLease(PolledLease):
    """A lease that, past its end, waits for the watchdog to renew it."""

    def __init__(self, lock: Polling, name: str, value: str, *, sent: float) -> None:
        super().__init__(lock, name, value, sent=sent)
        self.ttl: float = lock.ttl
        self.is_over: threading.Event = threading.Event()
        self.renewed: threading.Condition = threading.Condition()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self) -> None:
        """Renew the lease ten times per ttl."""
        while not self.is_over.wait(self.ttl / 10):
            with suppress(redis.RedisError):  # the next attempt may succeed
                self.renew()

    def renew(self) -> None:
        """Extend the lease by another ttl."""
        sent, px = time.monotonic(), milliseconds(self.ttl)
        is_renewed = self.redis.eval(RENEW_IF_MINE, 1, self.name, self.value, px)
        if not is_renewed:  # the lock expired, but nobody holds it now, so nothing seems lost
            is_renewed = self.redis.set(self.name, self.value, nx=True, px=px)
        if is_renewed:
            with self.renewed:
                self.trusted_until: float = sent + self.ttl * (1 - MARGIN_FRACTION)
                self.renewed.notify_all()

    def check(self) -> None:
        with self.renewed:
            if not self.renewed.wait_for(
                lambda: time.monotonic() < self.trusted_until, 2 * self.ttl
            ):
                raise NotGranted(f"{self.name} could not be renewed")

    def release(self) -> None:
        self.is_over.set()
        super().release()


class ResurrectingWatchdog(SingleServer):
    """A lock that is acquired correctly, but renewed even after it expired."""

    lease = WatchedLease


# Broken: the replica is promoted before the master has sent it the lock.


class TrustedFailover(SingleServer):
    """The lock that is correct on one server, used on a master with a replica.

    Nothing is wrong with its code. It has no token, so nothing can distinguish its two holders.
    """


# Broken: acquire returns False, nobody checks it, and the work is done all the same.


class UncheckedAcquire(Polling):
    """The lock that comes with redis-py, whose acquire returns whether it succeeded."""

    def acquire(self, name: str, *, timeout: float) -> HeldLock:
        lock = self.redis.lock(name, timeout=self.ttl, sleep=PAUSE_RANGE_SECONDS[1])
        lock.acquire(blocking_timeout=min(timeout, self.ttl / 4))
        return UnwatchedLease(lock)
