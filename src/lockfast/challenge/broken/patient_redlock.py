"""A control: Redlock whose nodes do not vote before all that they forgot has ended."""

from __future__ import annotations

from typing import Any

from lockfast.challenge.broken.forgetful_redlock import ForgetfulRedlock
from lockfast.challenge.broken.polling import milliseconds

SET_IF_OLD_ENOUGH = """
local uptime = string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%d+)')
if tonumber(uptime) < tonumber(ARGV[3]) then return 0 end
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
"""


class PatientRedlock(ForgetfulRedlock):
    """The nodes may restart empty: each is asked only once it is older than any lease."""

    def vote(self, node: Any, name: str, mine: str) -> object:  # noqa: ANN401 - see connect
        """Ask this node for its vote."""
        # Redis counts whole seconds, so that what it calls 2 may be little more than 1.
        age = int(self.ttl) + 2
        return node.eval(SET_IF_OLD_ENOUGH, 1, name, mine, milliseconds(self.ttl), age)
