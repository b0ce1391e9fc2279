"""Broken: a promoted replica has not heard of the last counts, and gives the same tokens again."""

from __future__ import annotations

import time

from lockfast.challenge.broken.polling import Lease, Polling, a_value_of_its_own, milliseconds

SET_AND_COUNT = """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0
"""


class CountedToken(Polling):
    """Each holder gets the next number of a counter, so that its late writes can be refused."""

    def try_acquire(self, name: str) -> Lease | None:
        """Ask once."""
        mine, sent = a_value_of_its_own(), time.monotonic()
        token = self.redis.eval(
            SET_AND_COUNT, 2, name, f"{name}:token", mine, milliseconds(self.ttl)
        )
        if not token:
            return None
        lease = Lease(self, name, mine, sent=sent)
        lease.token = token
        return lease
