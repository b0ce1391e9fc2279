# Generated from src/lockfast/backends/sessions/_async/transport.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""What a store with sessions has to offer: the requests of one session, in its own protocol.

A transport does not deal with trust, with the order of requests, or with waiting clients, because
the rest of this package does. A line that a transport returns has to be a snapshot, taken when the
store already had every claim that came before ours.
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


class SessionLines(Protocol):
    """The lines of names, as one session sees them and joins them.

    The requests raise the same errors as those of the transport.
    """

    def arrive(self, one: SessionClaim, *, deadline: float) -> LineView:
        """Put the claim into the line of its name, unless it is there already; return the line.

        Arrivals are idempotent: if an earlier arrival of the same claim was not answered, the
        transport first looks for its entry. As soon as the store has replied, `one` has to record
        its entry. A claim for a name in use with another capacity is refused, and leaves nothing
        behind. A claim that does not queue may be left out of the line if it would have to wait. A
        claim that can be admitted at once may be admitted in the same step; the transport then
        notes that in the line, so that `admit` need not repeat it.
        """
        ...

    def admit(self, one: SessionClaim, line: LineView, *, deadline: float) -> bool:
        """Record in the store that the claim is admitted; return false if the line has moved.

        This does nothing in stores where the claim's place in the line is enough, because new
        claims only join behind it.
        """
        del one, line, deadline
        return True

    def look(self, name: str, *, confirm: bool, deadline: float) -> LineView:
        """Return the line of a name, with all earlier changes; capacity 0 if the name is unused.

        With `confirm`, a quorum has to have agreed on the line, so that a deposed leader cannot
        answer.
        """
        ...

    def names(self, *, deadline: float) -> Sequence[str]:
        """Return the names in the store, in any order."""
        ...


class SessionTransport(Protocol):
    """One session: opened once, reconnected when its connection is lost, and never reopened.

    A transport is created with a ttl and a callback, `changed`, which it may call on any thread. It
    calls `changed` when the connection is lost or restored, and when the session has ended. Each
    request ends by its deadline. A request raises BackendUnavailable if nothing was sent,
    SessionEnded if none of its effects can last, OutcomeUnknown if a reply is missing, and an error
    that explains the refusal if the store refuses the request.
    """

    where: str
    """The store's location, for messages."""
    lines: SessionLines

    @property
    def is_over(self) -> bool:
        """Whether the store has ended the session, or we have closed it."""
        ...

    @property
    def is_connected(self) -> bool:
        """Whether a request could be sent now; by default, as long as the session lasts."""
        return not self.is_over

    @property
    def greeting(self) -> SessionHandshake | None:
        """The last connection's handshake; None if the store's handshakes do not cover sessions."""
        return None

    # -- the session -------------------------------------------------------------------

    def open(self, *, deadline: float) -> Opening:
        """Open the session."""
        ...

    def beat(self, *, confirm: bool, deadline: float) -> KeepAliveReply:
        """Keep the session alive, and report whether a quorum confirmed that it is alive.

        A session without a hold needs no `confirm`: a cheaper keep-alive is enough.
        """
        ...

    def own(self, *, deadline: float) -> Sequence[OwnEntry]:
        """Return the store's entries for this session; empty if the store cannot list them."""
        ...

    def hang_up(self) -> None:
        """Cut the connection, which does not answer, so that the next member is tried."""
        ...

    def close(self, *, goodbye: bool, deadline: float) -> None:
        """Close the connection; without a goodbye the session stays until it times out."""
        ...

    def abandon_connection(self) -> None:
        """Abandon the connection in a forked child; the parent process still uses it."""
        ...

    # -- the line ----------------------------------------------------------------------

    def read(
        self,
        asked: Sequence[tuple[str, Watch | None]],
        *,
        line: LineView | None = None,
        deadline: float,
    ) -> Sequence[SeenEntry | None]:
        """Return the entry at each key; None where there is none.

        A watch given with a key is called once, when the entry at that key is touched or deleted
        after this read, or when the connection is lost. If there is no entry at the key, the watch
        is dropped. `line` is the line in which the entries were last read. A transport that finds
        everything in `line` need not send a request.
        """
        ...

    def leave(
        self, one: SessionClaim, asked: Sequence[str], *, line: LineView, deadline: float
    ) -> Sequence[SeenEntry | None]:
        """Take a claim that does not wait out of the line, if it is there, and read the keys."""
        self.delete(one, deadline=deadline)
        return self.read([(key, None) for key in asked], line=line, deadline=deadline)

    def delete(self, one: SessionClaim, *, deadline: float) -> bool:
        """End the claim in the store; return whether it was there.

        If the claim's arrival was not answered, this makes sure that the claim does not arrive
        later.
        """
        ...

    def close_for(self, one: SessionClaim, seconds: float, *, deadline: float) -> bool:
        """End the hold but keep the name closed; return whether the claim was there.

        The name stays closed until `remove` is called. If `remove` is never called, the name stays
        closed until the session ends, or for at least `seconds`. Repeating an unanswered call
        returns true as well.
        """
        ...

    def touch(self, key: str, one: SessionClaim, heard: Callable[[bool], None]) -> None:
        """Touch the claim's entry, so that its watchers learn of the admission; do not wait.

        `heard` is called, on any thread, with true once nothing more has to be done. This does
        nothing in stores where the admission itself notifies the watchers.
        """
        del key, one
        heard(True)

    def remove(self, asked: Sequence[tuple[str, int | None]], *, deadline: float) -> Sequence[bool]:
        """Delete the entry at each key, of any owner; return true for each that was there.

        With a token, only an entry with that token is deleted, because a new claim at the same key
        has another token.
        """
        ...

    # -- inspection --------------------------------------------------------------------

    def diagnose(
        self, *, asked: float, granted: float, seconds: float, deadline: float
    ) -> Sequence[Finding]:
        """Report what this deployment can guarantee to a session of this ttl.

        `seconds` is the time limit for requests outside the session, such as requests to each
        member.
        """
        ...
