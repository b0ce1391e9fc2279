"""What a store with sessions has to offer: the requests of one session, in its own language.

A wire knows nothing of trust, of the order in which things are asked, or of who waits; all
that is decided here. What it says of a line has to be true of one moment at which the store had
every claim that came before ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.backends.sessions.answers import Beat, Greeting, Opening, Own, Seen
    from lockfast.backends.sessions.claims import CarriedClaim
    from lockfast.backends.sessions.line import Line
    from lockfast.backends.sessions.watches import Watch
    from lockfast.model import Finding


class AsyncWire(Protocol):
    """One session: opened once, its connection lost and made anew, over when it is over.

    Made for a ttl, and with `changed`, which it calls, on any thread, when the connection is
    lost or made again, and when the session is over.

    Each request ends by its deadline. It raises BackendUnavailable if nothing was sent,
    SessionEnded if nothing of it can last, OutcomeUnknown if an answer is missing, and a
    sentence for people if the store refuses it.
    """

    @property
    def where(self) -> str:
        """Where the store is, for people."""
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
    def greeting(self) -> Greeting | None:
        """What the last connection said of the session; None where a new one says nothing."""
        ...

    # -- the session -------------------------------------------------------------------

    async def open(self, *, deadline: float) -> Opening:
        """Begin the session."""
        ...

    async def beat(self, *, confirm: bool, deadline: float) -> Beat:
        """Keep the session alive, and say whether a quorum confirmed that it is.

        Without `confirm`, nothing is held and a cheaper heartbeat will do.
        """
        ...

    async def own(self, *, deadline: float) -> Sequence[Own]:
        """Return what the store keeps for this session, as far as it can tell."""
        ...

    def hang_up(self) -> None:
        """Cut the connection, so that another one is tried: this one does not answer."""
        ...

    async def close(self, *, goodbye: bool, deadline: float) -> None:
        """End the connection; without a goodbye the session stays until its time is over."""
        ...

    def leak(self) -> None:
        """Leave the connection to the parent process, which still uses it."""
        ...

    # -- the line ----------------------------------------------------------------------

    async def arrive(self, one: CarriedClaim, *, deadline: float) -> Line:
        """Bring the claim into the line of its name, unless it stands there; return the line.

        Idempotent by the claim's id: one whose arrival was not answered is looked for first.
        As soon as the store has answered, `one` has to know where it stands. A name in use with
        another capacity is refused, and nothing is left. A claim that does not queue may be
        left out of the line if it would have to wait. One that may pass can be admitted in the
        same step: what the line has to tell `admit` of that is the wire's own.
        """
        ...

    async def admit(self, one: CarriedClaim, line: Line, *, deadline: float) -> bool:
        """Let the store know that the claim is admitted; false if the line has moved since.

        Nothing to do where its place in the line is enough.
        """
        ...

    async def read(
        self,
        asked: Sequence[tuple[str, Watch | None]],
        *,
        line: Line | None = None,
        deadline: float,
    ) -> Sequence[Seen | None]:
        """Return what stands at each key; None where nothing does.

        A watch that comes with a key is called once, when what stands there is touched or goes
        after this was read, or when the connection is lost. Where there is nothing it is not
        kept. `line` is what was last read of them: who knows all by that need not ask again.
        """
        ...

    async def leave(
        self, one: CarriedClaim, asked: Sequence[str], *, line: Line, deadline: float
    ) -> Sequence[Seen | None]:
        """Take a claim that does not queue out of the line, if it is in it, and read the keys."""
        ...

    async def delete(self, one: CarriedClaim, *, deadline: float) -> bool:
        """End the claim in the store; true if it was there.

        Also one whose arrival was not answered, and so that it does not come later.
        """
        ...

    async def close_for(self, one: CarriedClaim, seconds: float, *, deadline: float) -> bool:
        """Let the claim hold nothing any more, and keep its name closed; true if it was there.

        Until `remove`; or until the session ends, or for no less than the seconds. A repeat of
        one that was not answered is true as well.
        """
        ...

    def touch(self, key: str, one: CarriedClaim, heard: Callable[[bool], None]) -> None:
        """Tell who watches the claim that it was admitted; does not wait.

        `heard` is told, on any thread, whether there is nothing more to do.
        """
        ...

    async def remove(
        self, asked: Sequence[tuple[str, int | None]], *, deadline: float
    ) -> Sequence[bool]:
        """Delete what stands at each key, whosever it is; true for each that was there.

        With a token only what has that one: where a claim may come back to its key, it is
        another one then.
        """
        ...

    # -- for people --------------------------------------------------------------------

    async def look(self, name: str, *, confirm: bool, deadline: float) -> Line:
        """Return the line of a name with all that was done before; capacity 0 if there is none.

        With `confirm` a quorum has to have agreed that it is so: a deposed leader must not
        answer for it.
        """
        ...

    async def diagnose(
        self, *, asked: float, granted: float, seconds: float, deadline: float
    ) -> Sequence[Finding]:
        """Tell what this deployment can promise to a session of this ttl.

        What is asked beside the session, of each member say, may take so many seconds.
        """
        ...

    async def names(self, *, deadline: float) -> Sequence[str]:
        """Return the names that the store knows, in any order."""
        ...
