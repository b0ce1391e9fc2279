"""What is done to a deployment or to its clients: one kind at a time, with a start and a stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.challenge.servers.proxy import Proxy

Role = Literal["holder", "asker", "waiter", "anybody"]
"""At whom of the clients it is aimed: an asker has a request under way, a waiter stands in line."""


class DidNotStrike(Exception):
    """What was to be struck would not be; the run goes on, and says so."""


@dataclass(frozen=True, slots=True)
class Draw:
    """All that chance decides of one strike, drawn before anything is looked at.

    So the seed fixes the order, the kind and the length of faults, whatever the clients do.
    """

    length: float
    """In seconds."""
    strength: float
    """From 0 to 1, for whatever the fault makes of it."""
    anybody: int
    """Which client it is where nobody has the role; a second chance for what strikes servers."""


class Fault(Protocol):
    """One kind of fault."""

    @property
    def kind(self) -> str:
        """As `--faults` takes it: "holder-frozen", "server-killed"."""

    @property
    def role(self) -> Role | None:
        """At whom it is aimed; None for what happens to the servers or to all ways."""

    @property
    def is_destructive(self) -> bool:
        """Whether others who use these servers would notice."""

    @property
    def lacks(self) -> str:
        """What this machine would need for it, as a sentence; empty if it can be made."""

    @property
    def lengths(self) -> tuple[float, float]:
        """How short and how long it is, in ttls."""

    def begin(self, draw: Draw, victim: int | None) -> str:
        """Let it strike; return at what, in words: "client 2", "the leader".

        Raises DidNotStrike, with the reason.
        """

    def end(self) -> str | None:
        """Let all be well again; called once for each `begin`, whatever happened.

        Returns what only now can be told of its target, if anything: "met nobody".
        """


class Deployment(Protocol):
    """Servers, the way of each client to them, and what can be done to both."""

    @property
    def store(self) -> str:
        """Which kind it is: "redis", "sentinel", "etcd"."""

    @property
    def url(self) -> str:
        """Where an operator would look, past all proxies."""

    def url_for(self, client: int) -> str:
        """Return the URL by which this client comes, by proxies of its own where it can be."""

    def ways(self, client: int) -> Sequence[Proxy]:
        """Return the proxies by which this client comes, and nobody else; empty if it has none."""

    def faults(self) -> Sequence[Fault]:
        """Return what can be done to the servers, feasible or not."""

    def forgives(self, kind: str) -> str:
        """Return why two may hold at once under this fault, as documented; empty if they may not.

        Under such a fault overlaps are counted; a write behind the token check is still judged.
        """
