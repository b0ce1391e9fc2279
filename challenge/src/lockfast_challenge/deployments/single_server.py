"""Stores with a single server; faults pause, kill or empty the server, or set its clock."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from lockfast import Locks
from lockfast_challenge.deployments.own_servers import OwnServers
from lockfast_challenge.faults.on_servers import PAUSE_RANGE_TTLS, ServerFault, revive
from lockfast_challenge.outcome import Exemption
from lockfast_challenge.servers.memcached import MemcachedServer
from lockfast_challenge.servers.server import Server
from lockfast_challenge.servers.shifted_clock import ShiftedClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast_challenge.deployments.own_servers import ServerAddress
    from lockfast_challenge.faults.fault import Draw, Fault


# Common to all stores with a single server.

ServerT = TypeVar("ServerT", bound=Server)


class SingleServerDeployment(OwnServers, Generic[ServerT]):
    """A deployment of one server.

    A subclass creates `server`, and defines how the server loses its data and whether its clock can
    be set.
    """

    server: ServerT
    clock_lacks = ""
    """Why the clock cannot be set; empty if it can."""

    def end_without_data(self) -> None:
        """Kill the server and lose all its data."""
        self.server.kill()

    def start_servers(self) -> None:
        """Start the server; return once it serves."""
        self.server.start()

    def stop_servers(self) -> None:
        """Stop the server."""
        self.server.stop()

    def places(self) -> list[ServerAddress]:
        """Return the address of the server."""
        return [("127.0.0.1", self.server.port)]

    def faults(self) -> Sequence[Fault]:
        return [
            ServerFault("server-paused", PAUSE_RANGE_TTLS, self._pause, self._revive),
            ServerFault("server-killed", begins=self._kill, ends=self._revive),
            ServerFault("server-emptied", begins=self._empty, ends=self._revive),
            ServerFault(
                "clock-jump",
                (0.5, 1.5),
                self._jump,
                self._reset_clock,
                lacks=self.clock_lacks,
                jumps=partial(jump_seconds, ttl=self.ttl),
            ),
        ]

    def _revive(self) -> None:
        revive([self.server])

    def _pause(self, _: Draw) -> str:
        self.server.pause()
        return "the server"

    def _kill(self, _: Draw) -> str:
        self.server.kill()
        return "the server"

    def _empty(self, _: Draw) -> str:
        self.end_without_data()
        return "the server and its data"

    def _jump(self, draw: Draw) -> str:
        return jump_clock(self.server, draw, ttl=self.ttl)

    def _reset_clock(self) -> None:
        reset_clocks([self.server])


def jump_seconds(draw: Draw, *, ttl: float) -> float:
    """Return how far a jump sets a clock, ahead or back, in seconds; always more than a ttl."""
    return ttl * (1.5 + draw.strength) * (1 if draw.anybody % 2 == 0 else -1)


def jump_clock(server: Server, draw: Draw, *, ttl: float) -> str:
    """Shift a server's clock as `jump_seconds` says; return how far, in words."""
    if not isinstance(server, ShiftedClock):
        raise TypeError(f"the clock of {server.kind} cannot be set")
    by = jump_seconds(draw, ttl=ttl)
    server.shift_clock(by)
    return f"the server's clock, by {by:+.1f} s"


def reset_clocks(servers: Sequence[Server]) -> None:
    """Set all clocks right again."""
    for one in servers:
        if isinstance(one, ShiftedClock):
            one.shift_clock(0.0)


# One memcached server, which forgets everything when it ends.

MEMCACHED_FORGETS = (
    "A restart, a crash, flush_all or an eviction under memory pressure frees a lock that is held"
)
MEMCACHED_COUNTS_BACK = "what is granted then can end as much too early as the pause was long"


class Memcached(SingleServerDeployment[MemcachedServer]):
    """`memcached://`."""

    store = "memcached"
    exemptions = (
        Exemption("server-paused", "overlap", MEMCACHED_COUNTS_BACK),
        Exemption("server-killed", "overlap", MEMCACHED_FORGETS),
        Exemption("server-emptied", "overlap", MEMCACHED_FORGETS),
    )
    clock_lacks = "memcached goes by the monotonic clock, which nobody can set"

    def __init__(self, *, ttl: float) -> None:
        super().__init__(ttl=ttl)
        self.server: MemcachedServer = MemcachedServer()

    def url_at(self, addresses: Sequence[str]) -> str:
        """Return the URL of the server."""
        return f"memcached://{addresses[0]}"


# Common to the SQL servers: their tables survive when the rows are lost.

TABLES = ("lockfast_door", "lockfast_place")


class SqlServer(SingleServerDeployment[ServerT]):
    """A SQL server that keeps its tables when it is emptied, as after a restore from a backup."""

    def start_servers(self) -> None:
        """Start the server; return once it serves and the tables exist."""
        super().start_servers()
        self.make_database()
        with Locks(self.url, request_timeout=20.0) as locks:
            locks.lock("challenge").acquire().release()

    def make_database(self) -> None:
        """Create the database that the URL names, if it is missing."""

    def empty_tables(self) -> None:
        """Delete the rows of all TABLES at once.

        A client that found one table empty and the other not would find what no backup contains.
        """
        raise NotImplementedError

    def end_without_data(self) -> None:
        """Delete all rows, and kill the server before clients can write many new ones."""
        self.empty_tables()
        self.server.kill()
