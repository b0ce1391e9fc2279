"""What a store with sessions has to offer: the requests of one session, in its own protocol.

A transport knows nothing of trust, of the order of requests, or of waiting clients, because
this package decides all that. The line that it returns has to be a snapshot, taken when the store
already had every claim that came before ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.backends.sessions.line import LineView, Watch
    from lockfast.backends.sessions.records import (
        KeepAliveReply,
        Opening,
        OwnEntry,
        SeenEntry,
        SessionClaim,
        SessionHandshake,
    )
    from lockfast.model import Finding


class AsyncSessionTransport(Protocol):
    """One session: opened once, reconnected when its connection is lost, and never reopened.

    It is created with a ttl and a callback, `changed`. It may call `changed` on any thread,
    when the connection is lost or restored and when the session has ended.

    Each request ends by its deadline. It raises BackendUnavailable if nothing was sent,
    SessionEnded if none of its effects can last, OutcomeUnknown if a reply is missing, and an error
    that explains the refusal if the store refuses it.
    """

    @property
    def where(self) -> str:
        """The store's location, for messages."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether the store has ended the session, or we have left it."""
        ...

    @property
    def is_connected(self) -> bool:
        """Whether a request could be sent now."""
        ...

    @property
    def greeting(self) -> SessionHandshake | None:
        """The last connection's handshake; None if a handshake says nothing about the session."""
        ...

    # -- the session -------------------------------------------------------------------

    async def open(self, *, deadline: float) -> Opening:
        """Open the session."""
        ...

    async def beat(self, *, confirm: bool, deadline: float) -> KeepAliveReply:
        """Keep the session alive, and report whether a quorum confirmed that it is alive.

        Without `confirm`, nothing is held and a cheaper keep-alive will do.
        """
        ...

    async def own(self, *, deadline: float) -> Sequence[OwnEntry]:
        """Return the entries that the store keeps for this session, as far as it can list them."""
        ...

    def hang_up(self) -> None:
        """Cut the connection because it does not answer, so that another one is tried."""
        ...

    async def close(self, *, goodbye: bool, deadline: float) -> None:
        """Close the connection; without a goodbye the session stays until it times out."""
        ...

    def abandon_connection(self) -> None:
        """Abandon the connection in a forked child; the parent process still uses it."""
        ...

    # -- the line ----------------------------------------------------------------------

    async def arrive(self, one: SessionClaim, *, deadline: float) -> LineView:
        """Put the claim into the line of its name, unless it is there already; return the line.

        Arrivals are idempotent by the claim's id: if an earlier arrival was not answered, its entry
        is looked for first. As soon as the store has replied, `one` has to record its entry. A name
        in use with another capacity is refused, and nothing is left behind. A claim that does not
        queue may be left out of the line if it would have to wait. A claim that can be admitted at
        once may be admitted in the same step; how the line passes that on to `admit` is up to the
        transport.
        """
        ...

    async def admit(self, one: SessionClaim, line: LineView, *, deadline: float) -> bool:
        """Record in the store that the claim is admitted; false if the line has moved since.

        This does nothing in stores where the claim's place in the line is enough.
        """
        ...

    async def read(
        self,
        asked: Sequence[tuple[str, Watch | None]],
        *,
        line: LineView | None = None,
        deadline: float,
    ) -> Sequence[SeenEntry | None]:
        """Return the entry at each key; None where there is none.

        A watch given with a key is called once, when the entry there is touched or deleted after
        this read, or when the connection is lost. Where there is no entry, no watch is kept. `line`
        is the line in which the entries were last read. A transport that finds everything in it
        need not send a request.
        """
        ...

    async def leave(
        self, one: SessionClaim, asked: Sequence[str], *, line: LineView, deadline: float
    ) -> Sequence[SeenEntry | None]:
        """Take a claim that does not queue out of the line, if it is there, and read the keys."""
        ...

    async def delete(self, one: SessionClaim, *, deadline: float) -> bool:
        """End the claim in the store; true if it was there.

        This also ends a claim whose arrival was not answered, and makes sure that it does not
        arrive later.
        """
        ...

    async def close_for(self, one: SessionClaim, seconds: float, *, deadline: float) -> bool:
        """End the hold but keep the name closed; true if the claim was there.

        The name stays closed until `remove` is called. If it never is, the name stays closed until
        the session ends, or for at least `seconds`. Repeating an unanswered call returns true as
        well.
        """
        ...

    def touch(self, key: str, one: SessionClaim, heard: Callable[[bool], None]) -> None:
        """Notify the watchers of the claim that it was admitted; does not wait.

        `heard` is called, on any thread, with true if there is nothing more to do.
        """
        ...

    async def remove(
        self, asked: Sequence[tuple[str, int | None]], *, deadline: float
    ) -> Sequence[bool]:
        """Delete the entry at each key, regardless of its owner; true for each that was there.

        With a token, delete only an entry with that token, because a claim that returns to its key
        has another token.
        """
        ...

    # -- inspection --------------------------------------------------------------------

    async def look(self, name: str, *, confirm: bool, deadline: float) -> LineView:
        """Return the line of a name, with all earlier changes; capacity 0 if there is none.

        With `confirm`, a quorum has to have agreed on the line, so that a deposed leader cannot
        answer.
        """
        ...

    async def diagnose(
        self, *, asked: float, granted: float, seconds: float, deadline: float
    ) -> Sequence[Finding]:
        """Report what this deployment can guarantee to a session of this ttl.

        `seconds` is the time limit for requests outside the session, such as those to each member.
        """
        ...

    async def names(self, *, deadline: float) -> Sequence[str]:
        """Return the names in the store, in any order."""
        ...
