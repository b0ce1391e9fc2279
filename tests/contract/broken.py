"""For each law, a subject that breaks it.

Some laws are kept by the backend, some by the client; a subject replaces the one that keeps its
law.
"""

# ruff: noqa: N801 - a class attribute that is a class is still an attribute

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from typing import Any, ClassVar

from lockfast import (
    AcquireTimeout,
    AsyncBackend,
    AsyncLease,
    AsyncLock,
    AsyncLocks,
    BackendUnavailable,
    Claim,
    Grant,
    Held,
    Inspection,
    NotAcquired,
    OutcomeUnknown,
    Renewal,
)
from lockfast.backends.memory._async.backend import AsyncMemoryBackend
from lockfast.backends.memory.store import MemoryStore
from lockfast.client._async.handle import each
from lockfast.client._async.lease import lease_on
from lockfast.core.door import Door
from lockfast.runtime.clock import Clock
from lockfast.testing import AsyncBackendContract

CAPABILITIES = AsyncMemoryBackend.capabilities


class Whole(AsyncBackendContract):
    """The unbroken subject, on virtual time; each broken subject changes a single thing."""

    capabilities = CAPABILITIES
    virtual_time = True
    backend_class: type[AsyncMemoryBackend] = AsyncMemoryBackend
    locks_class: type[AsyncLocks] = AsyncLocks
    store_class: type[MemoryStore] = MemoryStore

    def set_up(self) -> None:
        self.store = self.store_class(self.clock)

    def make_backend(self, clock: Clock) -> AsyncBackend:
        return self.backend_class(clock=clock, store=self.store)

    def make_locks(self, backend: AsyncBackend, **options: Any) -> AsyncLocks:
        return self.locks_class.from_backend(backend, clock=self.clock, **options)


class _LocksWith(AsyncLocks):
    lock_class: type[AsyncLock] = AsyncLock

    def lock(self, name: str, **options: Any) -> AsyncLock:
        return self.lock_class(self._client, name, self._options(options))  # type: ignore[arg-type]


# -- one broken thing per law ----------------------------------------------------------


class _RunsTheBodyAnyway(AsyncLock):
    async def __aenter__(self) -> AsyncLease:
        try:
            return await super().__aenter__()
        except (NotAcquired, BackendUnavailable):
            return None  # type: ignore[return-value]

    async def __aexit__(self, *error: object) -> None:
        if self._entered:
            await super().__aexit__(*error)  # type: ignore[arg-type]


class Law01(Whole):
    class locks_class(_LocksWith):
        lock_class = _RunsTheBodyAnyway


class Law02(Whole):
    """A semaphore that does not count single permits."""

    class backend_class(AsyncMemoryBackend):
        async def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
            if 1 < claim.capacity < 1000 and claim.weight == 1:
                claim = dataclasses.replace(claim, weight=0)
            return await super().try_acquire(claim, deadline=deadline)


class Law03(Whole):
    """A break that resets the token."""

    class backend_class(AsyncMemoryBackend):
        broken: ClassVar[Counter[str]] = Counter()

        async def break_(self, name: str, *, deadline: float, **whose: Any) -> Any:
            self.broken[name] += 10**12
            return await super().break_(name, deadline=deadline, **whose)

        async def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
            answer = await super().try_acquire(claim, deadline=deadline)
            if isinstance(answer, Grant) and answer.token:
                answer = dataclasses.replace(answer, token=answer.token - self.broken[claim.name])
            return answer


class Law04(Whole):
    """A release that deletes any hold, also that of another client."""

    class backend_class(AsyncMemoryBackend):
        async def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
            released = await super().release(grant, deadline=deadline, tombstone=tombstone)
            if not released:
                await self.break_(grant.claim.name, deadline=deadline)
            return released


class Law05(Whole):
    """A repeated request that returns the same grant, but does not extend its deadline."""

    class backend_class(AsyncMemoryBackend):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.given: dict[str, Grant] = {}

        async def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
            if claim.id in self.given:
                return self.given[claim.id]
            answer = await super().try_acquire(claim, deadline=deadline)
            if isinstance(answer, Grant):
                self.given[claim.id] = answer
            return answer


class Law06(Whole):
    """No tombstones: a late request is granted."""

    class backend_class(AsyncMemoryBackend):
        async def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
            del tombstone
            await super().withdraw(claim, deadline=deadline, tombstone=False)


class Law07(Whole):
    """An unanswered renewal counts as done."""

    def make_locks(self, backend: AsyncBackend, **options: Any) -> AsyncLocks:
        locks = super().make_locks(backend, **options)
        watchdog = locks._client.watchdog
        settle = watchdog.settle

        def hopeful(hold: Any, outcome: Renewal, *, sent_at: float) -> None:
            settle(
                hold, Renewal.RENEWED if outcome is Renewal.UNKNOWN else outcome, sent_at=sent_at
            )

        watchdog.settle = hopeful  # type: ignore[method-assign]
        return locks


class Law08(Whole):
    """Requests are given up far too late."""

    def make_locks(self, backend: AsyncBackend, **options: Any) -> AsyncLocks:
        locks = super().make_locks(backend, **options)
        locks._client.request_timeout *= 4
        return locks


class Law09(Whole):
    """A waiter behind a dead holder is kept waiting long after the ttl."""

    class store_class(MemoryStore):
        def __init__(self, clock: Clock) -> None:
            super().__init__(clock)
            self.released: set[str] = set()

    class backend_class(AsyncMemoryBackend):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.now = options["clock"].now
            self.behind: dict[str, Held] = {}
            self.held_back: dict[str, float] = {}

        async def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
            self._store.released.add(grant.claim.name)  # type: ignore[attr-defined]
            return await super().release(grant, deadline=deadline, tombstone=tombstone)

        async def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
            answer = await super().try_acquire(claim, deadline=deadline)
            if isinstance(answer, Held):
                self.behind[claim.id] = answer
                return answer
            refused = self.behind.get(claim.id)
            released: set[str] = self._store.released  # type: ignore[attr-defined]
            if refused and refused.holders and claim.name not in released:
                since = self.held_back.setdefault(claim.id, self.now())
                if self.now() < since + 5.0:
                    return Held(refused.holders, 1, 0.1)
            return answer

        async def wait(self, claim: Claim, *, deadline: float) -> None:
            if claim.id in self.held_back:  # the store itself admitted this claim long ago
                await asyncio.sleep(deadline - self.now())
            else:
                await super().wait(claim, deadline=deadline)


class _NoOneIsTurnedAway(Door):
    def _turn_away(self, client: str) -> None:
        pass


class Law10(Whole):
    """An admission that costs one window for each dead waiter in the line."""

    class store_class(MemoryStore):
        door = _NoOneIsTurnedAway


class _CallsIgnoranceAnOutage(AsyncLock):
    async def acquire(self, **options: Any) -> AsyncLease:
        try:
            return await super().acquire(**options)
        except OutcomeUnknown as error:
            raise BackendUnavailable(str(error)) from error


class Law11(Whole):
    class locks_class(_LocksWith):
        lock_class = _CallsIgnoranceAnOutage


class Law12(Whole):
    """Names that differ only in case are the same lock."""

    class backend_class(AsyncMemoryBackend):
        async def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
            claim = dataclasses.replace(claim, name=claim.name.lower())
            return await super().try_acquire(claim, deadline=deadline)


class _FailureReleases(AsyncLock):
    async def acquire(self, **options: Any) -> AsyncLease:
        try:
            return await super().acquire(**options)
        except AcquireTimeout:
            for handle in each(self._handles):
                await lease_on(handle).release()
            raise


class Law13(Whole):
    class locks_class(_LocksWith):
        lock_class = _FailureReleases


class Law14(Whole):
    """A close that does not notify holders."""

    class locks_class(AsyncLocks):
        async def aclose(self) -> None:
            self._client.closing.is_begun = True
            await self._client.watchdog.stop()
            await self._client.backend.aclose()


class Law15(Whole):
    """A min_hold that is ignored."""

    class backend_class(AsyncMemoryBackend):
        async def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
            claim = dataclasses.replace(claim, min_hold=0.0)
            return await super().try_acquire(claim, deadline=deadline)


# -- and one for what people are told ----------------------------------------------------


class CountsNoPermits(Whole):
    """A semaphore that reports locked as soon as any permit is taken."""

    law = 2

    class locks_class(AsyncLocks):
        def semaphore(self, name: str, **options: Any) -> Any:
            semaphore = super().semaphore(name, **options)

            async def locked() -> bool:
                return bool((await self.inspect(name)).holders)

            semaphore.locked = locked  # type: ignore[method-assign]
            return semaphore


class BreaksWhateverIsThere(Whole):
    """A break that ignores the token."""

    law = 4

    class backend_class(AsyncMemoryBackend):
        async def break_(self, name: str, *, deadline: float, **_whose: Any) -> Any:
            return await super().break_(name, deadline=deadline)


class BreaksInSilence(Whole):
    """A client whose own break does not notify its own leases."""

    law = 7

    class locks_class(AsyncLocks):
        async def break_(self, name: str, **whose: Any) -> Any:
            deadline = self._client.request_deadline()
            return await self._client.backend.break_(name, deadline=deadline, **whose)


class ForgetsItsRenewals(Whole):
    """A client that renews, but still counts its ttl from the first grant."""

    law = 7

    def make_locks(self, backend: AsyncBackend, **options: Any) -> AsyncLocks:
        locks = super().make_locks(backend, **options)
        watchdog = locks._client.watchdog
        settle = watchdog.settle

        def forgetful(hold: Any, outcome: Renewal, *, sent_at: float) -> None:
            if outcome is not Renewal.RENEWED:
                settle(hold, outcome, sent_at=sent_at)

        watchdog.settle = forgetful  # type: ignore[method-assign]
        return locks


class CountsNoWaiting(Whole):
    """A line that does not report how long a claim has waited."""

    law = 10

    class backend_class(AsyncMemoryBackend):
        async def inspect(self, name: str, *, deadline: float) -> Inspection:
            seen = await super().inspect(name, deadline=deadline)
            line = tuple(dataclasses.replace(one, age=0.0) for one in seen.line)
            return dataclasses.replace(seen, line=line)


class SaysNothingOfClosing(Whole):
    """A closed name that looks free."""

    law = 15

    class backend_class(AsyncMemoryBackend):
        async def inspect(self, name: str, *, deadline: float) -> Inspection:
            seen = await super().inspect(name, deadline=deadline)
            return dataclasses.replace(seen, closing=())


class AttestsWhatIsOver(Whole):
    """A sequencer that stays current for ever once it was current."""

    law = 3

    class backend_class(AsyncMemoryBackend):
        attested: ClassVar[dict[str, Inspection]] = {}

        async def attest(self, name: str, *, deadline: float) -> Inspection:
            seen = await super().inspect(name, deadline=deadline)
            return self.attested.setdefault(name, seen) if seen.holders else seen


class AnyHold(str):
    """A hold that compares equal to every other hold."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True


class AttestsByTokenAlone(Whole):
    """A store that accepts any sequencer whose token is that of a holder."""

    law = 12

    class backend_class(AsyncMemoryBackend):
        async def attest(self, name: str, *, deadline: float) -> Inspection:
            seen = await super().inspect(name, deadline=deadline)
            holders = tuple(dataclasses.replace(one, hold=AnyHold()) for one in seen.holders)
            return dataclasses.replace(seen, holders=holders)


TELLING = [
    CountsNoPermits,
    BreaksWhateverIsThere,
    BreaksInSilence,
    ForgetsItsRenewals,
    CountsNoWaiting,
    SaysNothingOfClosing,
    AttestsWhatIsOver,
    AttestsByTokenAlone,
]

OF_LAWS = (
    *(Law01, Law02, Law03, Law04, Law05, Law06, Law07, Law08),
    *(Law09, Law10, Law11, Law12, Law13, Law14, Law15),
)
LAWS = dict(enumerate(OF_LAWS, 1))
