"""What Sentinel and Cluster have in common: a master, and replicas that may lack what it wrote."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from lockfast.challenge.deployments.on_servers import PAUSED, OnServers
from lockfast.challenge.deployments.own import OwnServers
from lockfast.challenge.deployments.redis import FORGETS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.challenge.fault import Draw, Fault
    from lockfast.challenge.servers.redis import RedisServer

HELD = 0.8
"""In ttls: so long is replication held at most before the master dies."""
REPLACED = (0.5, 1.0)


class Replicated(OwnServers):
    """Servers that tell clients of each other: what they tell leads each by its own ways."""

    are_told = True
    documented: ClassVar[dict[str, str]] = {
        "failover": FORGETS,
        "server-killed": FORGETS,
        "server-paused": FORGETS,
    }

    # -- what a store says -----------------------------------------------------------------

    def master(self) -> RedisServer:
        """Return the master that has the name."""
        raise NotImplementedError

    def followers(self, master: RedisServer) -> list[RedisServer]:
        """Return who follows it."""
        raise NotImplementedError

    def cut_off(self, master: RedisServer) -> list[RedisServer]:
        """Let what it acknowledges reach nobody else; return the followers, which are frozen."""
        raise NotImplementedError

    def replace(self, dead: RedisServer, followers: Sequence[RedisServer]) -> None:
        """Return once a follower has taken the place of a master.

        Sooner than they would by themselves, while a lock that was lost is still believed in.
        """
        raise NotImplementedError

    def mend(self) -> None:
        """Return once all serve, and all replicas follow their masters."""
        raise NotImplementedError

    # -- a deployment ----------------------------------------------------------------------

    def faults(self) -> Sequence[Fault]:
        """See the protocol."""
        return [
            OnServers("failover", REPLACED, self._fail_over, self.mend),
            OnServers("server-paused", PAUSED, self._pause, self.mend),
            OnServers("server-killed", REPLACED, self._kill, self.mend),
        ]

    def _fail_over(self, draw: Draw) -> str:
        """Lose what is acknowledged last: it reaches no replica until one of them is promoted."""
        master = self.master()
        followers = self.cut_off(master)
        time.sleep(self.ttl * HELD * draw.strength)
        master.kill()
        for one in followers:
            one.resume()
        self.replace(master, followers)
        return "the master, and what its replicas had not heard of"

    def _pause(self, _: Draw) -> str:
        self.master().pause()
        return "the master"

    def _kill(self, _: Draw) -> str:
        master = self.master()
        followers = self.followers(master)
        master.kill()
        self.replace(master, followers)
        return "the master"
