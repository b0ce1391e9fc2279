# Generated from src/lockfast/testing/_async/faulty.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""A backend that fails on command, to simulate the faults of a network."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Self

from lockfast import urls
from lockfast.core.event_notes import store_of
from lockfast.errors import BackendUnavailable, OutcomeUnknown
from lockfast.model import Grant
from lockfast.runtime import threads as runtime
from lockfast.runtime.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lockfast.backends._sync.backend import Backend
    from lockfast.model import (
        Capabilities,
        Claim,
        Crowd,
        Finding,
        Held,
        Holder,
        Inspection,
        Proven,
        Renewal,
        RevisionGuard,
        Schema,
    )


class FaultyBackend:
    """Passes every call on to a real backend, unless the call was set to fail.

    A fault is set for a method by name ("try_acquire", "renew", "release", "withdraw") and affects
    its next calls. `calls` counts the requests, and `delivered` counts the requests that got
    through. Pass the faulty backend to `Locks.from_backend`. If the test has its own clock,
    pass the clock to both.
    """

    def __init__(self, inner: Backend, *, clock: Clock | None = None) -> None:
        self.inner = inner
        self.capabilities: Capabilities = inner.capabilities
        self.min_ttl: float = inner.min_ttl
        self.location: str = f"faulty {inner.location}"
        self.store: str = store_of(inner)
        self.renewals_at_once: int = inner.renewals_at_once
        self.calls: Counter[str] = Counter()
        self.delivered: Counter[str] = Counter()
        self._clock = Clock() if clock is None else clock
        self._faults: dict[str, list[str]] = {}
        self._delays: dict[str, float] = {}
        self._late: list[Callable[[], Any]] = []
        self._grants: dict[str, list[Grant]] = {}
        self._is_away = False

    @classmethod
    def around(
        cls,
        url: str,
        *,
        namespace: str | None = None,
        clock: Clock | None = None,
        **backend_options: object,
    ) -> Self:
        """Return a faulty backend around the backend of the URL; nothing is connected yet.

        The arguments are those of Locks.
        """
        clock = Clock() if clock is None else clock
        inner = urls.open_backend(
            url, flavour="_sync", namespace=namespace, clock=clock, options=backend_options
        )
        return cls(inner, clock=clock)

    # -- the faults --------------------------------------------------------------------

    def lose_request(self, verb: str, *, times: int = 1) -> None:
        """Lose the next requests before they arrive; the caller gets OutcomeUnknown."""
        self._faults.setdefault(verb, []).extend(["request"] * times)

    def lose_reply(self, verb: str, *, times: int = 1) -> None:
        """Execute the next requests, but lose the replies."""
        self._faults.setdefault(verb, []).extend(["reply"] * times)

    def deliver_late(self, verb: str, *, times: int = 1) -> None:
        """Hold back the next requests until `deliver` is called; the caller gets no reply."""
        self._faults.setdefault(verb, []).extend(["late"] * times)

    def hang(self, verb: str, *, times: int = 1) -> None:
        """Lose the next requests silently; the caller waits until its deadline."""
        self._faults.setdefault(verb, []).extend(["hang"] * times)

    def delay(self, verb: str, seconds: float) -> None:
        """Delay every request of this method by `seconds`; 0 ends the delay."""
        self._delays[verb] = seconds

    def go_away(self) -> None:
        """Refuse all requests, like a server that is down."""
        self._is_away = True

    def come_back(self) -> None:
        """Serve requests again, and clear all faults that have not taken effect yet."""
        self._is_away = False
        self._faults.clear()

    def deliver(self) -> None:
        """Execute the requests that were held back, after their callers have given up."""
        late, self._late = self._late, []
        for request in late:
            request()

    def expire_now(self, name: str) -> None:
        """Make the store drop this client's grants on a name, without notifying the client."""
        for grant in self._grants.pop(name, []):
            self.inner.withdraw(grant.claim, deadline=self._clock.now() + 10.0, tombstone=False)

    # -- the port ----------------------------------------------------------------------

    def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:

        def request() -> Grant | Held:
            return self.inner.try_acquire(claim, deadline=deadline)

        answer: Grant | Held = self._pass("try_acquire", request, deadline)
        if isinstance(answer, Grant):
            self._grants.setdefault(claim.name, []).append(answer)
        return answer

    def try_acquire_all(
        self, claims: Sequence[Claim], *, deadline: float
    ) -> Sequence[Grant] | None:

        def request() -> Sequence[Grant] | None:
            return self.inner.try_acquire_all(claims, deadline=deadline)

        answer: Sequence[Grant] | None = self._pass("try_acquire_all", request, deadline)
        for grant in answer or ():
            self._grants.setdefault(grant.claim.name, []).append(grant)
        return answer

    def server_of(self, name: str) -> str:
        return self.inner.server_of(name)

    def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal | Proven]:

        def request() -> Sequence[Renewal | Proven]:
            return self.inner.renew(grants, deadline=deadline)

        answer: Sequence[Renewal | Proven] = self._pass("renew", request, deadline)
        return answer

    def hand_over(self, grant: Grant, *, deadline: float) -> Renewal:

        def request() -> Renewal:
            return self.inner.hand_over(grant, deadline=deadline)

        outcome: Renewal = self._pass("hand_over", request, deadline)
        return outcome

    def guard(self, grant: Grant) -> RevisionGuard:
        """Return the inner backend's guard; no request is sent."""
        return self.inner.guard(grant)

    def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:

        def request() -> bool:
            return self.inner.release(grant, deadline=deadline, tombstone=tombstone)

        answer: bool = self._pass("release", request, deadline)
        return answer

    def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:

        def request() -> None:
            self.inner.withdraw(claim, deadline=deadline, tombstone=tombstone)

        self._pass("withdraw", request, deadline)

    def wait(self, claim: Claim, *, deadline: float) -> None:
        self.inner.wait(claim, deadline=deadline)

    def wake(self, claim: Claim) -> None:
        self.inner.wake(claim)

    def inspect(self, name: str, *, deadline: float) -> Inspection:
        return self.inner.inspect(name, deadline=deadline)

    def crowds(self, names: Sequence[str], *, deadline: float) -> Sequence[Crowd]:

        def request() -> Sequence[Crowd]:
            return self.inner.crowds(names, deadline=deadline)

        answer: Sequence[Crowd] = self._pass("crowds", request, deadline)
        return answer

    def attest(self, name: str, *, deadline: float) -> Inspection:
        return self.inner.attest(name, deadline=deadline)

    def survey(self, prefix: str, *, deadline: float) -> Iterator[Inspection]:
        for one in self.inner.survey(prefix, deadline=deadline):
            yield one

    def break_(
        self, name: str, *, token: int | None = None, owner: str | None = None, deadline: float
    ) -> tuple[Holder, ...]:
        return self.inner.break_(name, token=token, owner=owner, deadline=deadline)

    def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        return self.inner.diagnose(deadline=deadline)

    def schema(self) -> Schema | None:
        return self.inner.schema()

    def make_schema(self, *, deadline: float) -> bool:
        return self.inner.make_schema(deadline=deadline)

    def drop_schema(self, *, deadline: float) -> bool:
        return self.inner.drop_schema(deadline=deadline)

    def attach(self, *, ttl: float, hurry: Callable[[], None]) -> None:
        self.inner.attach(ttl=ttl, hurry=hurry)

    def bound_requests(self, request_timeout: float) -> bool:
        """Return False, so that the client's own deadline ends a request that was lost."""
        del request_timeout
        return False

    def disown(self, client: str, *, deadline: float) -> None:
        self.inner.disown(client, deadline=deadline)

    def close(self) -> None:
        self.inner.close()

    # -- injecting faults ---------------------------------------------------------------

    def _pass(self, verb: str, request: Callable[[], Any], deadline: float) -> Any:
        self.calls[verb] += 1
        if self._is_away:
            raise BackendUnavailable("the faulty backend is away")
        if self._delays.get(verb):
            self._sleep_until(min(deadline, self._clock.now() + self._delays[verb]))
        fault = self._faults[verb].pop(0) if self._faults.get(verb) else None
        if fault == "late":
            self._late.append(request)
        if fault == "hang":
            self._sleep_until(deadline)
        if fault is None or fault == "reply":
            self.delivered[verb] += 1
            answer = request()
            if fault is None:
                return answer
        raise OutcomeUnknown(f"the faulty backend did not answer {verb}")

    def _sleep_until(self, deadline: float) -> None:
        runtime.wait_for(runtime.WakeEvent(), deadline=deadline, clock=self._clock)
