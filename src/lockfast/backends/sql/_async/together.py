"""Requests that wait for each other go together, in one round trip and one commit.

A commit is the dear part of a request, and a shared one costs hardly more than one's own. So
whoever comes while enough is under way stands in a queue; when something has come back, one of
the queue carries all that stands there. Who comes while nothing is under way goes at once, by
the plain statement and in its own frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.backends.sql._async.carrying import AsyncCarrying
from lockfast.backends.sql.deeds import Deed, What

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.sql._async.wire import AsyncWire
    from lockfast.backends.sql.statements import Statements
    from lockfast.backends.sql.turns import Turn
    from lockfast.model import Claim
    from lockfast.runtime.clock import Clock

MOST = 2
"""So many statements are under way at the same time: the other connections are for the doors."""

LATE = 0.05
"""What is under way for longer does not count: it may stand before a row that somebody has locked,
and the others need not."""


class AsyncTogether(AsyncCarrying[Deed, int | None]):
    """The uncontended cycle of one client: every request asks once, and never for the line.

    The answer to each is its token if it was done, None if it was not.
    """

    def __init__(self, wire: AsyncWire[Any], statements: Statements, *, clock: Clock) -> None:
        super().__init__(where=wire.where, clock=clock)
        self._wire = wire
        self._statements = statements

    @property
    def _most(self) -> int:
        return MOST

    @property
    def _late(self) -> float:
        return LATE

    @property
    def _patience(self) -> float | None:
        return self._wire.request_timeout

    # -- the verbs ---------------------------------------------------------------------

    async def take(
        self, claim: Claim, *, deadline: float, is_known: bool = True, turn: Turn | None = None
    ) -> int | None:
        """Return the token, None if it has to go through the door.

        So it has to, if it goes alone and its name `is_known` and yet unknown to the server.

        As its fellows, it raises BackendUnavailable if nothing was done, and OutcomeUnknown if
        something may have been.
        """
        [token] = await self._do([Deed(What.TAKE, claim, is_known)], deadline, turn)
        return token

    async def give_back(self, claim: Claim, *, deadline: float) -> bool:
        """Whether the hold was ended; if not, it has to go through the door."""
        [token] = await self._do([Deed(What.RELEASE, claim)], deadline)
        return token is not None

    async def renew(self, claims: Sequence[Claim], *, deadline: float) -> list[bool]:
        """Whether each was renewed; the others have to go through their doors."""
        if not claims:
            return []
        # Of several at one name at most one stands in the name's own row, and which is not known.
        first = {claim.name: claim for claim in reversed(claims)}
        deeds = [Deed(What.RENEW, claim) for claim in first.values()]
        tokens = await self._do(deeds, deadline)
        done = {deed.claim.id for deed, token in zip(deeds, tokens, strict=True) if token}
        return [claim.id in done for claim in claims]

    # -- how they are asked for --------------------------------------------------------

    async def _plainly(
        self, deeds: Sequence[Deed], deadline: float, turn: Turn
    ) -> list[int | None]:
        [(what, claim, is_known), *others] = deeds
        if others or what is What.RENEW:
            return await self._in_one(deeds, deadline, turn)
        if what is What.RELEASE:
            request = self._statements.release(claim)
        elif is_known:
            request = self._statements.take(claim)
        else:
            request = self._statements.take_new(claim)
        rows = await self._wire.ask(request, deadline=deadline, turn=turn)
        return [self._statements.token_in(rows)]

    async def _in_one(self, deeds: Sequence[Deed], deadline: float, turn: Turn) -> list[int | None]:
        requests = self._statements.together(deeds)
        answers = await self._wire.ask_all(requests, deadline=deadline, turn=turn)
        return self._statements.done(deeds, answers)
