"""The interfaces of a fault, which has a start and an end, and of the deployment it strikes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast_challenge.outcome import Exemption
    from lockfast_challenge.servers.proxy import Proxy

Role = Literal["holder", "asker", "waiter", "anybody"]
"""The client that a fault strikes: an asker has a request under way, a waiter is in line."""


class DidNotStrike(Exception):
    """The fault could not be made; the run continues and reports the reason."""


@dataclass(frozen=True, slots=True)
class Draw:
    """All random choices of one strike, drawn before the state of the run is read.

    So the seed fixes the order, the kind and the length of the faults, whatever the clients do.
    """

    length: float
    """Length of the fault, in seconds."""
    strength: float
    """Strength of the fault, from 0 to 1; its meaning depends on the fault."""
    anybody: int
    """The client to strike if none has the role; faults of servers use it as a random number."""


class Fault(Protocol):
    """One kind of fault."""

    @property
    def kind(self) -> str:
        """The name of the kind, as `--faults` takes it: "holder-frozen", "server-killed"."""

    @property
    def role(self) -> Role | None:
        """The role of the client to strike; None for a fault of servers or of all connections."""

    @property
    def is_destructive(self) -> bool:
        """Whether other users of these servers would notice the fault."""

    @property
    def lacks(self) -> str:
        """What this machine lacks to make the fault, as a sentence; empty if it lacks nothing."""

    @property
    def lengths(self) -> tuple[float, float]:
        """The shortest and the longest length, in ttls."""

    @property
    def lies_in_wait(self) -> bool:
        """Whether the fault has begun, and its length is to count from the first message it meets.

        Most requests are answered faster than the clients are polled, so by the time a client is
        seen as an asker, it usually has its reply already.
        """

    @property
    def jumps(self) -> Callable[[Draw], float] | None:
        """Returns how far a strike sets a server's clock ahead, in seconds; negative for back.

        The end of the strike puts the clock right again. None for a fault that sets no clock.
        """

    def begin(self, draw: Draw, victim: int | None) -> str:
        """Start the fault; return its target in words: "client 2", "the leader".

        Raises DidNotStrike, with the reason, if the fault could not be made.
        """

    def end(self) -> str | None:
        """End the fault; called once for each `begin`, whatever happened.

        Returns what is known about the target only at the end, such as "met nobody"; otherwise
        nothing.
        """


class Deployment(Protocol):
    """Servers, each client's proxies to them, and the faults of the servers."""

    @property
    def store(self) -> str:
        """The name of the store: "redis", "sentinel", "etcd"."""

    @property
    def url(self) -> str:
        """The URL that an operator would use, without any proxy."""

    def url_for(self, client: int) -> str:
        """Return the URL for this client, through proxies of its own where possible."""

    def proxies_of(self, client: int) -> Sequence[Proxy]:
        """Return the proxies that only this client uses; empty if the client has no proxies."""

    def faults(self) -> Sequence[Fault]:
        """Return the faults of the servers, including those that cannot be made here."""

    @property
    def exemptions(self) -> Sequence[Exemption]:
        """The findings that the store's page allows for, each under one kind of fault.

        They are only counted, but writes behind the token check are still judged.
        """
