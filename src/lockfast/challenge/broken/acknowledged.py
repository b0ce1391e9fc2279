"""A control: nobody holds the lock before the replica knows of it, and tokens follow the clock."""

from __future__ import annotations

import time
from contextlib import suppress

from lockfast.challenge.broken.polling import Lease, Polling, a_value_of_its_own, milliseconds
from lockfast.challenge.contender import Refused

SET_AND_DATE = """
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
local now = redis.call('TIME')
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
local token = math.max(last + 1, now[1] * 1000000 + now[2])
redis.call('SET', KEYS[2], string.format('%.0f', token))
return token
"""


class Acknowledged(Polling):
    """A lock that the replica has not acknowledged in time is given back, and was never held.

    That is enough for one replica, which is the one that will be promoted.
    """

    def try_acquire(self, name: str) -> Lease | None:
        """Ask once."""
        mine, sent = a_value_of_its_own(), time.monotonic()
        # On one connection: WAIT speaks of what came on its own.
        with self.redis.client() as redis:
            token = redis.eval(SET_AND_DATE, 2, name, f"{name}:token", mine, milliseconds(self.ttl))
            if not token:
                return None
            lease = Lease(self, name, mine, sent=sent)
            lease.token = token
            if redis.wait(1, milliseconds(self.ttl / 4)) >= 1:
                return lease
        with suppress(Refused):  # it ended by itself meanwhile
            lease.release()
        return None
