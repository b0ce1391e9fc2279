# Generated from src/holdfast/backends/sql/_async/advisory_session.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""A session that carries advisory locks: which of them, for which claims."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from holdfast.backends.sql._sync.advisory_life import AdvisoryLife
from holdfast.backends.sql._sync.advisory_requests import Request
from holdfast.backends.sql.standing import Standing
from holdfast.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Hashable

    from holdfast.model import Claim


class AdvisorySession(AdvisoryLife):
    """Takes locks and gives them back; all end with it."""

    def take(self, key: Hashable, claim: Claim, *, deadline: float) -> bool | None:
        """Whether the claim has the lock; None if another claim of ours has it, or asks."""
        with self._state:
            self._refuse_if_over()
            standing = self.standings.get(key)
            if standing is None:
                ask = self._statements.take(key, self.number)
                request = Request(ask, deadline=deadline)
                standing = Standing(claim, self._clock.now(), request)
                request.heard = partial(self._taken, key, standing)
                request.failed = partial(self._leave, key, standing, deadline)
                self.standings[key] = standing
                self._requests.append(request)
                self._kick.set()
        if standing.claim.id != claim.id:
            return None
        if not self._is_begun_in_time(standing.asking, deadline):
            self._forget(key, standing)
            raise BackendUnavailable(f"{self._where}: there was no time left to ask")
        self._answered(standing.asking, deadline)
        return standing.is_held and standing.leaving is None

    def give_back(self, key: Hashable, claim: Claim, *, deadline: float) -> bool:
        """Let the claim have nothing; whether it had something. Repeated, it is the same."""
        with self._state:
            self._refuse_if_over()
            standing = self.standings.get(key)
            if standing is None or standing.claim.id != claim.id:
                return False
            leaving = self._leave(key, standing, deadline)
        self._answered(leaving, deadline)
        return standing.is_held

    def _leave(self, key: Hashable, standing: Standing[Request], deadline: float) -> Request:
        """Have the lock given back, once: it may be ours although the request for it failed.

        In the order in which they were asked for, so it comes after one that is not answered.
        """
        leaving = standing.leaving
        if leaving is None:
            ask = self._statements.give_back(key, self.number)
            heard = partial(self._given_back, key, standing)
            # A lock that could not be given back ends with the session, as all others do.
            leaving = Request(ask, deadline=deadline, heard=heard, failed=self._lose)
            standing.leaving = leaving
        # An interrupt may have struck before it was put there.
        if not (leaving.is_begun or leaving in self._requests):
            self._requests.append(leaving)
            self._kick.set()
        return leaving

    def _taken(self, key: Hashable, standing: Standing[Request], answer: object) -> None:
        standing.is_held = answer in (1, True)
        if not standing.is_held and standing.leaving is None:
            self._forget(key, standing)

    def _given_back(self, key: Hashable, standing: Standing[Request], answer: object) -> None:
        del answer
        self._forget(key, standing)
        self._freed(key)

    def _forget(self, key: Hashable, standing: Standing[Request]) -> None:
        with self._state:
            if self.standings.get(key) is standing:
                del self.standings[key]

    def holds(self, key: Hashable, claim_id: str) -> bool:
        """Whether this session carries the claim's lock, as far as it knows."""
        standing = self.standings.get(key)
        is_its = standing is not None and standing.claim.id == claim_id and standing.is_held
        return is_its and not self._is_over
