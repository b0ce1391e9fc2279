"""Everything that Lockfast raises.

    LockError(Exception)
    ├── NotAcquired                     contention: the lock is held
    │   └── AcquireTimeout(TimeoutError)
    ├── LeaseLost                       loss: the lock was ours and may no longer be used
    ├── NotOwner
    ├── OutcomeUnknown                  unknown outcome: the request was sent, not answered
    ├── BackendError                    outage
    │   ├── BackendUnavailable
    │   └── BackendMisbehaved
    ├── Stale                           a guard refused a write
    │   ├── StaleToken
    │   └── StaleRow
    ├── WouldDeadlock(RuntimeError)
    ├── TokenUnavailable
    ├── LocksClosed(RuntimeError)
    └── ConfigurationError(ValueError)

Contention, loss, unknown outcome and outage are four branches because the caller does four
different things. The driver's own error is always the `__cause__`.

Each error can be created from its message alone, so a serializer that keeps only the message (JSON
in Celery, for example) restores the same class. Fields that the serializer did not keep are empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.model import Closing, Held, Holder

__all__ = [
    "AcquireTimeout",
    "BackendError",
    "BackendMisbehaved",
    "BackendUnavailable",
    "ConfigurationError",
    "LeaseLost",
    "LockError",
    "LocksClosed",
    "NotAcquired",
    "NotOwner",
    "OutcomeUnknown",
    "Stale",
    "StaleRow",
    "StaleToken",
    "TokenUnavailable",
    "WouldDeadlock",
]

DISTRIBUTION = "lockfast"
"""The name on PyPI; every message that says what to install uses it."""


def pip_install(extra: str) -> str:
    """Return the command that installs an extra, quoted for every platform's shell."""
    return f'pip install "{DISTRIBUTION}[{extra}]"'


def _restore(cls: type[LockError], message: str, state: dict[str, object]) -> LockError:
    error = cls.__new__(cls, message)
    Exception.__init__(error, message)
    error.__dict__.update(state)
    return error


class LockError(Exception):
    """Base class of all Lockfast errors; `name` is the lock concerned, if any."""

    exit_code: ClassVar[int] = 70
    http_status: ClassVar[int] = 500

    def __init__(self, message: str, *, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name

    def __reduce__(self) -> tuple[object, ...]:
        # The constructors take keyword arguments, which Exception's own pickling cannot repeat.
        return _restore, (type(self), str(self), dict(self.__dict__))

    def about(self, name: str) -> Self:
        """Return this error with the lock's name filled in, unless it already has one."""
        if self.name is None:
            self.name = name
        return self


class NotAcquired(LockError):
    """The lock was not free; the attempt left nothing behind in the store.

    `holders` and `place` are what the store last reported. `closing` lists capacity that has no
    holder, but that min_hold or lock_delay still keeps closed.
    """

    exit_code = 75
    http_status = 423

    def __init__(
        self,
        message: str,
        *,
        name: str | None = None,
        holders: Sequence[Holder] = (),
        place: int | None = None,
        closing: Sequence[Closing] = (),
    ) -> None:
        super().__init__(message, name=name)
        self.holders: tuple[Holder, ...] = tuple(holders)
        self.place = place
        self.closing: tuple[Closing, ...] = tuple(closing)


class AcquireTimeout(NotAcquired, TimeoutError):
    """The timeout passed before the lock was granted; `waited` is the time in line, in seconds."""

    def __init__(
        self,
        message: str,
        *,
        name: str | None = None,
        waited: float = 0.0,
        holders: Sequence[Holder] = (),
        place: int | None = None,
        closing: Sequence[Closing] = (),
    ) -> None:
        super().__init__(message, name=name, holders=holders, place=place, closing=closing)
        self.waited = waited


def acquire_timeout(name: str, held: Held, *, waited: float) -> AcquireTimeout:
    """Return the error for an acquire that gave up after the store's last reply."""
    has_waited = waited >= 0.05  # noqa: PLR2004
    begun = f"not acquired in {waited:.1f} s:" if has_waited else "is"
    return AcquireTimeout(
        f"{name!r} {begun} {held_text(held)}",
        name=name,
        waited=waited,
        holders=held.holders,
        place=held.place,
        closing=held.closing,
    )


def shards_timeout(
    name: str, last: AcquireTimeout, *, shards: int, waited: float
) -> AcquireTimeout:
    """Return the error for an acquire that found no free shard of a sharded lock.

    `last` is the timeout error of the last shard that was tried.
    """
    return AcquireTimeout(
        f"none of the {shards} shards of {name!r} was free: {last}",
        name=name,
        waited=waited,
        holders=last.holders,
        place=last.place,
        closing=last.closing,
    )


def held_text(held: Held) -> str:
    """Return a phrase that names the holders, what keeps the name closed, and our place in line."""
    facts = []
    if held.holders:
        first = held.holders[0]
        more = f" and {len(held.holders) - 1} more" if len(held.holders) > 1 else ""
        token = "" if first.token is None else f", token {first.token}"
        facts.append(f"held by {first.owner} for {first.age:.1f} s{token}{more}")
    if held.closing:
        last = max(held.closing, key=lambda one: one.remaining)
        facts.append(f"closed for {last.remaining:.1f} s more after {last.owner}")
    facts = facts or ["held"]  # the store did not name the holders
    if held.place is not None:
        facts.append(f"number {held.place} in line")
    return "; ".join(facts)


class LeaseLost(LockError):
    """The lock stopped being ours while we were still using it.

    Stop touching the protected resource. `token` is the token of the lost lease; from now on, the
    resource should accept only larger tokens. `reason` is one of expired, taken, session_ended,
    broken, max_hold, closed, forked.
    """

    exit_code = 73
    http_status = 409

    def __init__(
        self,
        message: str | None = None,
        *,
        name: str | None = None,
        token: int | None = None,
        reason: str = "",
        hint: str = "",
    ) -> None:
        explanation = _REASONS.get(reason, reason) + (f"; {hint}" if hint else "")
        super().__init__(message or f"lease on {name!r} lost: {explanation}", name=name)
        self.token = token
        self.reason = reason


_REASONS = {
    "expired": "it was not renewed in time (expired)",
    "taken": "the store no longer knows it as ours (taken)",
    "session_ended": "the session that carried it ended (session_ended)",
    "broken": "an operator broke it (broken)",
    "max_hold": "it was held for max_hold (max_hold)",
    "closed": "its client was closed (closed)",
    "forked": "a forked child holds nothing (forked)",
}


class NotOwner(LockError):
    """A caller that does not hold the lock tried to release or renew it; nothing was changed."""

    exit_code = 70
    http_status = 409


class OutcomeUnknown(LockError):
    """A request was sent and not answered, so the store may or may not have carried it out.

    `claim` is the claim id that the store may have recorded. After a failed acquire, the claim is
    withdrawn in the background; if the withdrawal fails too, the claim ends with its ttl.
    """

    exit_code = 70
    http_status = 504

    def __init__(self, message: str, *, name: str | None = None, claim: str | None = None) -> None:
        super().__init__(message, name=name)
        self.claim = claim


class BackendError(LockError):
    """The store, or the connection to it, failed; `__cause__` is the driver's own error."""

    exit_code = 69
    http_status = 503


class BackendUnavailable(BackendError):
    """The store could not be reached and did nothing, so it is safe to retry."""


class BackendMisbehaved(BackendError):
    """The store gave a reply that is never valid, because of a defect or of damaged data."""

    exit_code = 70
    http_status = 502


class Stale(LockError):
    """A guarded resource refused a write by a late holder."""

    exit_code = 73
    http_status = 412


class StaleToken(Stale):
    """The resource has seen a larger token (`seen`) than ours (`token`), so our lease has ended."""

    def __init__(
        self, message: str, *, name: str | None = None, token: int = 0, seen: int = 0
    ) -> None:
        super().__init__(message, name=name)
        self.token = token
        self.seen = seen


class StaleRow(Stale):
    """The row has changed since it was read; `current` is the row now, or None if it is gone."""

    def __init__(self, message: str, *, name: str | None = None, current: object = None) -> None:
        super().__init__(message, name=name)
        self.current = current


class WouldDeadlock(LockError, RuntimeError):
    """Waiting would never end, because the caller holds the lock itself or is part of a cycle.

    In a cycle, the caller would wait for a holder that itself waits, directly or through others,
    for one of the caller's locks. `cycle` then lists the names, starting with the requested one.
    """

    http_status = 409

    def __init__(self, message: str, *, name: str | None = None, cycle: Sequence[str] = ()) -> None:
        super().__init__(message, name=name)
        self.cycle: tuple[str, ...] = tuple(cycle)


class TokenUnavailable(LockError):
    """No fencing token is available, because the backend has none or the lease is shared."""

    exit_code = 78
    http_status = 501


class LocksClosed(LockError, RuntimeError):
    """The client was closed; create a new one."""

    http_status = 503


class ConfigurationError(LockError, ValueError):
    """A setting is invalid or cannot be used here; the message says what is accepted."""

    # The HTTP status is 500, because a wrong password or address is a mistake of the service, not
    # of its client.
    exit_code = 78
    http_status = 500
