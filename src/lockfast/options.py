"""All defaults and accepted values, in one module so that all error messages are consistent."""

from __future__ import annotations

import enum
import functools
import logging
import math
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, Unpack, cast

from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from lockfast.events import Hook

DEFAULT_TTL: Final = 30.0
DEFAULT_REQUEST_TIMEOUT: Final = 2.0
LONGEST_TTL: Final = 7 * 24 * 3600.0
LARGEST_CAPACITY: Final = 1_000_000
LARGEST_TOKEN: Final = 2**53 - 1
MOST_SHARDS: Final = 1000


class Unset(enum.Enum):
    """The type of UNSET, the default of an argument for which None is a meaningful value."""

    UNSET = enum.auto()

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET


class LockKeywords(TypedDict, total=False):
    """The keywords of `lock()` and similar methods; editors show these texts."""

    ttl: float | None
    """How long the store keeps the lock without a renewal, in seconds. If the holder dies, the lock
    is free after that time. None means the client's ttl."""
    timeout: float | None
    """How long to wait for the lock, in seconds. None waits for ever, 0 tries once."""
    renew: bool
    """Whether the lease is renewed in the background while it is held."""
    reentrant: bool
    """Whether the thread or task that holds the lock may acquire it again. If not, acquiring it
    again raises WouldDeadlock."""
    owner: str | None
    """The name of an owner that may hold the lock several times, in several processes."""
    max_hold: float | None
    """The lease is lost after this many seconds, even if it is renewed; None means never."""
    min_hold: float
    """The lock stays closed for this many seconds after it was granted, released or not."""
    lock_delay: float
    """The lock stays closed for this many seconds after a holder failed."""
    on_lost: Callable[[Any], None] | None
    """Called with the lease when it is lost."""


class NoKeywords(TypedDict):
    """No keywords, for type checkers; at run time, any keyword raises an error with a hint."""


class AdoptKeywords(TypedDict, total=False):
    """The keywords of `adopt()`; all other options come with the lease."""

    renew: bool
    """Whether the lease is renewed in the background while it is held."""
    max_hold: float | None
    """The lease is lost after this many seconds, even if it is renewed; None means never."""
    on_lost: Callable[[Any], None] | None
    """Called with the lease when it is lost."""


@dataclass(frozen=True, slots=True)
class LockOptions:
    """The options of one lock."""

    ttl: float = DEFAULT_TTL
    timeout: float | None = None
    renew: bool = True
    reentrant: bool = True
    owner: str | None = None
    max_hold: float | None = None
    min_hold: float = 0.0
    lock_delay: float = 0.0
    on_lost: Callable[[Any], None] | None = None

    def __post_init__(self) -> None:
        checked_ttl(self.ttl)
        checked_timeout(self.timeout)
        _checked_bool("renew", self.renew)
        _checked_bool("reentrant", self.reentrant)
        checked_owner(self.owner)
        if self.max_hold is not None and _seconds("max_hold", self.max_hold) <= 0:
            raise ConfigurationError(f"max_hold={self.max_hold!r}: a time above 0 s, or None")
        for option in ("min_hold", "lock_delay"):
            _checked_closed_time(option, getattr(self, option))
        if self.on_lost is not None and not callable(self.on_lost):
            raise TypeError(f"on_lost is called with the lease: {self.on_lost!r} is not callable")


def lock_options(given: LockKeywords, *, ttl: float) -> LockOptions:
    """Return the options of one lock; `ttl` is the client's, for a lock that sets none."""
    if "on_lost" in given:
        return _lock_options(given, ttl)  # not cached: the cache would keep the hook alive
    try:
        return _cached_lock_options(ttl, **given)
    except TypeError:
        pass  # a value is not hashable, or has the wrong type
    # Check again outside of the `except`; otherwise the traceback would show the error twice.
    return _lock_options(given, ttl)


# Programs repeat the same few options, so each combination is checked only once. `typed` is needed
# because True equals 1, but is not accepted as a number.
@lru_cache(maxsize=64, typed=True)
def _cached_lock_options(client_ttl: float, **given: Unpack[LockKeywords]) -> LockOptions:
    return _lock_options(given, client_ttl)


def _lock_options(given: LockKeywords, client_ttl: float) -> LockOptions:
    checked_keywords(given, accepted=LockOptions.__dataclass_fields__, what="a lock")
    if given.get("ttl") is None:
        given = {**given, "ttl": client_ttl}
    return LockOptions(**given)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """The options of one client, however it is created."""

    ttl: float = DEFAULT_TTL
    label: str | None = None
    request_timeout: float = DEFAULT_REQUEST_TIMEOUT
    on_event: Hook | Sequence[Hook] | None = None
    clock: Any
    """A Clock. It is typed as Any because Clock belongs to a layer above this one."""

    def __post_init__(self) -> None:
        checked_request_timeout(self.request_timeout)
        if self.label is not None and not isinstance(self.label, str):
            raise TypeError(f"label is a str, not {type(self.label).__name__}")
        for hook in self.hooks:
            if not callable(hook):
                raise TypeError(f"on_event is called with the event: {hook!r} is not callable")

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The functions that are called with each event."""
        if self.on_event is None:
            return ()
        if isinstance(self.on_event, list | tuple) and not callable(self.on_event):
            return tuple(self.on_event)
        return (cast("Hook", self.on_event),)

    def for_locks(self, *, shortest_ttl: float) -> LockOptions:
        """Return the default options of the client's locks.

        The ttl is checked here and not earlier, because the error states the store's minimum.
        """
        return LockOptions(ttl=checked_ttl(self.ttl, minimum=shortest_ttl))


def checked_ttl(ttl: float, *, minimum: float = 0.0) -> float:
    """Return the ttl; raise if it is out of range, warn if it looks like milliseconds."""
    if _is_outside(_number("ttl", ttl), above=0.0, at_most=LONGEST_TTL) or ttl < minimum:
        low = f"at least {minimum:g} s" if minimum else "more than 0 s"
        raise ConfigurationError(
            f"ttl={ttl!r}: {low} and at most {LONGEST_TTL:g} s (a week) is accepted"
        )
    if ttl >= _MILLISECONDS and ttl % 1000 == 0 and ttl % 3600 != 0:
        _warn_of_milliseconds(ttl)
    return ttl


_MILLISECONDS = 5000
"""From this ttl on, a multiple of 1000 that is not a whole number of hours was probably meant as
milliseconds."""


@functools.cache
def _warn_of_milliseconds(ttl: float) -> None:
    """Warn once per process and ttl, since programs create the same lock repeatedly."""
    logging.getLogger("lockfast").warning(
        "ttl=%g is %.1f hours: if its holder dies, the lock stays closed for so long. A ttl is in "
        "seconds; if milliseconds were meant, write ttl=%g",
        ttl,
        ttl / 3600,
        ttl / 1000,
    )


def _checked_closed_time(option: str, seconds: float) -> None:
    # The store has to measure this period, so it must not be longer than a store can count.
    if not 0 <= _number(option, seconds) <= LONGEST_TTL:
        raise ConfigurationError(
            f"{option}={seconds!r}: 0 s to {LONGEST_TTL:g} s (a week) is accepted"
        )


def checked_timeout(timeout: float | None) -> float | None:
    """Return the timeout; the error for an invalid one explains None and 0."""
    if timeout is not None and _is_outside(_number("timeout", timeout), above=-1e-300):
        raise ConfigurationError(
            f"timeout={timeout!r}: None waits for ever, 0 tries once, more waits that many seconds"
        )
    return timeout


def checked_request_timeout(seconds: float) -> float:
    """Return the request timeout; raise if it is out of range."""
    if _is_outside(_number("request_timeout", seconds), above=0.0, at_most=3600.0):
        raise ConfigurationError(
            f"request_timeout={seconds!r}: more than 0 s and at most 3600 s is accepted"
        )
    return seconds


def checked_capacity(capacity: int) -> int:
    """Return a semaphore's capacity; raise if it is out of range."""
    return _checked_int("capacity", capacity, LARGEST_CAPACITY)


def checked_permits(permits: int, *, capacity: int) -> int:
    """Return the number of permits; raise if they exceed the capacity."""
    return _checked_int("permits", permits, capacity)


def checked_shards(shards: int) -> int:
    """Return the number of shards; raise if it is out of range.

    The number is limited because trying all shards takes one request per shard.
    """
    return _checked_int("shards", shards, MOST_SHARDS)


def checked_stripes(stripes: int) -> int:
    """Return the number of stripes; raise if it is out of range."""
    return _checked_int("stripes", stripes, LARGEST_CAPACITY)


def checked_count(option: str, count: int) -> int:
    """Return a number of rows or attempts; raise if it is out of range."""
    return _checked_int(option, count, LARGEST_CAPACITY)


def checked_poll(poll: float | None) -> float | None:
    """Return the interval for polling for new work; the error for an invalid one explains None."""
    if poll is not None and _is_outside(_number("poll", poll), above=0.0, at_most=LONGEST_TTL):
        raise ConfigurationError(
            f"poll={poll!r}: None ends when nothing is left, more than 0 s looks again so often"
        )
    return poll


def checked_cancel(cancel: object) -> None:
    """Raise if `cancel` has no `is_set()`; called before the wait begins."""
    if isinstance(cancel, type) or not callable(getattr(cancel, "is_set", None)):
        raise TypeError(f"cancel is an event of threading or asyncio (is_set()), not {cancel!r}")


def checked_token(token: int | None) -> int | None:
    """Return a fencing token received from elsewhere; raise if the value cannot be a token."""
    return None if token is None else _checked_int("token", token, LARGEST_TOKEN)


def checked_owner(owner: str | None) -> str | None:
    """Return the name of an explicit owner; raise if it is not valid."""
    if owner is None:
        return None
    if not isinstance(owner, str):
        raise TypeError(f"owner is a str, not {type(owner).__name__}")
    try:
        size = len(owner.encode())
    except UnicodeEncodeError:
        size = 0  # a lone surrogate has no UTF-8 form
    if not 0 < size <= 256:  # noqa: PLR2004
        raise ConfigurationError("owner: 1 to 256 bytes of UTF-8 are accepted")
    return owner


def checked_if_held(choice: str) -> Literal["wait", "skip", "raise"]:
    """Return the value of `if_held`; the error for an invalid value lists the choices."""
    if choice not in ("wait", "skip", "raise"):
        raise ConfigurationError(f"if_held={choice!r}: wait, skip or raise is accepted")
    return choice  # type: ignore[return-value]


def checked_skipped(skipped: object, *, if_held: str) -> object:
    """Return what a skipped call returns; raise if `if_held` means that no call is skipped."""
    if skipped is UNSET:
        return None
    if if_held != "skip":
        raise ConfigurationError(
            "skipped= is what a skipped call returns: it goes with if_held='skip'"
        )
    return skipped


def checked_switch(option: str, value: object) -> bool:
    """Return whether an option is on, given as a bool in a call or as a word in a URL."""
    found = _SWITCHES.get(str(value).lower())
    if found is None:
        raise ConfigurationError(f"{option}={value!r}: true or false is accepted")
    return found


_SWITCHES = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def checked_keywords(
    given: Iterable[str],
    *,
    accepted: Collection[str],
    what: str,
    aliases: Mapping[str, str] = {},
    hints: Mapping[str, str] = {},
) -> None:
    """Raise on unknown options, listing the accepted ones.

    Aliases are accepted too, but not listed. A hint replaces the guess at what an option meant.
    """
    unknown = sorted(set(given).difference(accepted, aliases))
    if unknown:
        known = {**_OTHER_LIBRARIES, **hints}
        found = dict.fromkeys(known[one] for one in unknown if one in known)
        alike = (one for word in unknown for one in closest(word, [*accepted, *aliases]))
        meant = list(dict.fromkeys(aliases.get(one, one) for one in alike))[:SUGGESTIONS_MAX]
        if meant and not found:
            found = {f"did you mean {' or '.join(meant)}?": None}
        listed = f"accepted: {', '.join(sorted(accepted)) or 'none'}"
        raise ConfigurationError(
            f"unknown option {', '.join(unknown)} for {what}; {'; '.join([*found, listed])}"
        )


SUGGESTIONS_MAX = 2
"""Maximum number of options that an error suggests in place of an unknown one."""

_OTHER_LIBRARIES = {
    "blocking": "acquire() waits, and try_acquire() does not",
    "blocking_timeout": "how long to wait is timeout=, how long the lock lives is ttl=",
    "expire": "how long the lock lives is ttl=",
}
"""Options of other lock libraries, each with a hint at the Lockfast equivalent."""


def closest(word: str, known: Iterable[str]) -> list[str]:
    """Return the known words that look like this one, at most three."""
    import difflib  # noqa: PLC0415 - only needed after a misspelling

    return difflib.get_close_matches(word, list(known), n=3)


def _number(option: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{option} is a number of seconds, not {type(value).__name__}")
    return value


def _seconds(option: str, value: float) -> float:
    if not abs(_number(option, value)) <= sys.float_info.max:
        raise ConfigurationError(f"{option}={value!r}: a finite number of seconds is accepted")
    return value


def _is_outside(value: float, *, above: float, at_most: float = math.inf) -> bool:
    # The value is compared as it is, because an int may be too large for a float. NaN is outside of
    # every range.
    return not above < value <= min(at_most, sys.float_info.max)


def _checked_int(option: str, value: int, largest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{option} is a whole number, not {type(value).__name__}")
    if not 1 <= value <= largest:
        raise ConfigurationError(f"{option}={value!r}: 1 to {largest} is accepted")
    return value


def _checked_bool(option: str, value: bool) -> None:  # noqa: FBT001 - the value to check
    if not isinstance(value, bool):
        raise TypeError(f"{option} is True or False, not {type(value).__name__}")
