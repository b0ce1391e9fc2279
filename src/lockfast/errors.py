"""Everything that Lockfast raises.

    LockError(Exception)
    ├── NotAcquired                     contention: somebody else has it
    │   └── AcquireTimeout(TimeoutError)
    ├── LeaseLost                       loss: it was ours and may no longer be used
    ├── NotOwner
    ├── OutcomeUnknown                  ignorance: sent, not answered
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

Contention, loss, ignorance and outage are four branches because the caller does four
different things. The driver's own error is always the `__cause__`.

Each can be made from its message alone: so a serializer that keeps no more than that, as JSON in
Celery, gives back the same class. Fields that it did not keep are empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.model import Closing, Holder

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
"""The name that pip knows; every message that says what to install takes it from here."""


def pip_install(extra: str) -> str:
    """Return the command that installs what an extra brings, quoted for every platform's shell."""
    return f'pip install "{DISTRIBUTION}[{extra}]"'


def _restore(cls: type[LockError], message: str, state: dict[str, object]) -> LockError:
    error = cls.__new__(cls, message)
    Exception.__init__(error, message)
    error.__dict__.update(state)
    return error


class LockError(Exception):
    """The root of all errors of Lockfast; `name` is the lock it speaks of, if any."""

    exit_code: ClassVar[int] = 70
    http_status: ClassVar[int] = 500

    def __init__(self, message: str, *, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name

    def __reduce__(self) -> tuple[object, ...]:
        # The constructors take keywords, which Exception's own pickling cannot repeat.
        return _restore, (type(self), str(self), dict(self.__dict__))

    def about(self, name: str) -> Self:
        """Return this error with the lock's name filled in, if nobody said it yet."""
        if self.name is None:
            self.name = name
        return self


class NotAcquired(LockError):
    """Somebody else holds the name; nothing of ours is left behind.

    `holders` and `place` tell what the store last said of the line at the door; `closing`,
    what nobody holds and min_hold or lock_delay keeps closed.
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
    """The timeout passed before it was our turn; `waited` is how long we stood in line."""

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


class LeaseLost(LockError):
    """The lock stopped being ours while we were still using it.

    Stop touching the protected resource. `token` tells the resource which writes were
    ours; anything it accepts from now on must carry a larger one. `reason` is one of
    expired, taken, session_ended, broken, max_hold, closed, forked.
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
        said = _REASONS.get(reason, reason) + (f"; {hint}" if hint else "")
        super().__init__(message or f"lease on {name!r} lost: {said}", name=name)
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
    """Release or renewal by somebody who does not hold the lock; nothing was changed."""

    exit_code = 70
    http_status = 409


class OutcomeUnknown(LockError):
    """A request was sent and not answered: the store may have done it or not.

    `claim` is the id under which the store may know us. After a failed acquire the
    withdrawal of that claim goes on in the background; its ttl ends it in any case.
    """

    exit_code = 70
    http_status = 504

    def __init__(self, message: str, *, name: str | None = None, claim: str | None = None) -> None:
        super().__init__(message, name=name)
        self.claim = claim


class BackendError(LockError):
    """The store, or the way to it, failed; `__cause__` is the driver's own error."""

    exit_code = 69
    http_status = 503


class BackendUnavailable(BackendError):
    """The store could not be reached, and did nothing of what was asked: retry freely."""


class BackendMisbehaved(BackendError):
    """The store answered what it must never answer: a defect, or damaged data."""

    exit_code = 70
    http_status = 502


class Stale(LockError):
    """A guarded resource refused a write that came too late."""

    exit_code = 73
    http_status = 412


class StaleToken(Stale):
    """The resource has seen a larger token (`seen`) than ours (`token`): the lease is over."""

    def __init__(
        self, message: str, *, name: str | None = None, token: int = 0, seen: int = 0
    ) -> None:
        super().__init__(message, name=name)
        self.token = token
        self.seen = seen


class StaleRow(Stale):
    """The row was changed since it was read; `current` is the row as it is now, None if gone."""

    def __init__(self, message: str, *, name: str | None = None, current: object = None) -> None:
        super().__init__(message, name=name)
        self.current = current


class WouldDeadlock(LockError, RuntimeError):
    """Waiting here could never end: the caller holds what it would wait for.

    Or it holds what somebody waits for whom it would wait for: then `cycle` has the names, the
    one that was asked for first.
    """

    http_status = 409

    def __init__(self, message: str, *, name: str | None = None, cycle: Sequence[str] = ()) -> None:
        super().__init__(message, name=name)
        self.cycle: tuple[str, ...] = tuple(cycle)


class TokenUnavailable(LockError):
    """There is no token that fences: the backend has none, or the lease is shared."""

    exit_code = 78
    http_status = 501


class LocksClosed(LockError, RuntimeError):
    """The client was closed; make a new one."""

    http_status = 503


class ConfigurationError(LockError, ValueError):
    """A value that Lockfast cannot work with; the message says what it accepts."""

    # 500: a wrong password or address is the service's mistake, not that of its client.
    exit_code = 78
    http_status = 500
