"""Every default, and what is accepted: one place, so that all errors sound alike."""

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
    from collections.abc import Callable, Collection, Iterable, Sequence

    from lockfast.events import Hook

DEFAULT_TTL: Final = 30.0
DEFAULT_REQUEST_TIMEOUT: Final = 2.0
LONGEST_TTL: Final = 7 * 24 * 3600.0
LARGEST_CAPACITY: Final = 1_000_000
LARGEST_TOKEN: Final = 2**53 - 1
MOST_SHARDS: Final = 1000


class Unset(enum.Enum):
    """The type of UNSET: an argument that was not given, where None means something."""

    UNSET = enum.auto()

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET


class LockKeywords(TypedDict, total=False):
    """The keywords of `lock()` and its kin: what an editor shows of each."""

    ttl: float | None
    """How long the store keeps the lock without a renewal, in seconds: if its holder dies, it is
    free after that. None is the ttl of the client."""
    timeout: float | None
    """How long to wait for the lock, in seconds: None waits for ever, 0 tries once."""
    renew: bool
    """Whether the lease is renewed in the background for as long as it is held."""
    reentrant: bool
    """Whether the thread or task that holds the lock may enter it again; if not, that raises
    WouldDeadlock."""
    owner: str | None
    """The name of an owner that may hold the lock several times, in several processes."""
    max_hold: float | None
    """After how many seconds the lease is lost, however well it is renewed; None is never."""
    min_hold: float
    """For how many seconds after it was granted the lock stays closed, released or not."""
    lock_delay: float
    """For how many seconds the lock stays closed after a holder that failed."""
    on_lost: Callable[[Any], None] | None
    """Is called with the lease when that is lost."""


class NoKeywords(TypedDict):
    """No keyword at all: for type checkers; whoever gives one is told what it is called here."""


class AdoptKeywords(TypedDict, total=False):
    """The keywords of `adopt()`: all else came with the lease."""

    renew: bool
    """Whether the lease is renewed in the background for as long as it is held."""
    max_hold: float | None
    """After how many seconds the lease is lost, however well it is renewed; None is never."""
    on_lost: Callable[[Any], None] | None
    """Is called with the lease when that is lost."""


@dataclass(frozen=True, slots=True)
class LockOptions:
    """What a caller may choose for one lock."""

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
            _checked_closing(option, getattr(self, option))
        if self.on_lost is not None and not callable(self.on_lost):
            raise TypeError(f"on_lost is called with the lease: {self.on_lost!r} is not callable")


def lock_options(given: LockKeywords, *, ttl: float) -> LockOptions:
    """Return the options of one lock, whose client's ttl is this one."""
    if "on_lost" in given:
        return _lock_options(given, ttl)  # not kept: a hook would live as long
    try:
        return _known_lock_options(ttl, **given)
    except TypeError:
        return _lock_options(given, ttl)  # what cannot be hashed is refused, by its name


# The same few again and again: checked once. By type too, for True equals 1 and is no number here.
@lru_cache(maxsize=64, typed=True)
def _known_lock_options(client_ttl: float, **given: Unpack[LockKeywords]) -> LockOptions:
    return _lock_options(given, client_ttl)


def _lock_options(given: LockKeywords, client_ttl: float) -> LockOptions:
    checked_keywords(given, accepted=LockOptions.__dataclass_fields__, what="a lock")
    if given.get("ttl") is None:
        given = {**given, "ttl": client_ttl}
    return LockOptions(**given)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """What a caller may choose for one client, whichever way it is made."""

    ttl: float = DEFAULT_TTL
    label: str | None = None
    request_timeout: float = DEFAULT_REQUEST_TIMEOUT
    on_event: Hook | Sequence[Hook] | None = None
    clock: Any
    """A Clock, whose layer stands on this one."""

    def __post_init__(self) -> None:
        checked_request_timeout(self.request_timeout)
        if self.label is not None and not isinstance(self.label, str):
            raise TypeError(f"label is a str, not {type(self.label).__name__}")
        for hook in self.hooks:
            if not callable(hook):
                raise TypeError(f"on_event is called with the event: {hook!r} is not callable")

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """Who is called with each event, one or several."""
        if self.on_event is None:
            return ()
        if isinstance(self.on_event, list | tuple) and not callable(self.on_event):
            return tuple(self.on_event)
        return (cast("Hook", self.on_event),)

    def for_locks(self, *, shortest_ttl: float) -> LockOptions:
        """Return what its locks begin with.

        The ttl is checked here, since the refusal names the shortest that the store keeps.
        """
        return LockOptions(ttl=checked_ttl(self.ttl, minimum=shortest_ttl))


def checked_ttl(ttl: float, *, minimum: float = 0.0) -> float:
    """Return the ttl, or say the accepted range; one that looks like milliseconds is warned of."""
    if _is_outside(_number("ttl", ttl), above=0.0, at_most=LONGEST_TTL) or ttl < minimum:
        low = f"at least {minimum:g} s" if minimum else "more than 0 s"
        raise ConfigurationError(
            f"ttl={ttl!r}: {low} and at most {LONGEST_TTL:g} s (a week) is accepted"
        )
    if ttl >= _MILLISECONDS and ttl % 1000 == 0 and ttl % 3600 != 0:
        _warn_of_milliseconds(ttl)
    return ttl


_MILLISECONDS = 5000
"""From here on a round number of seconds that is no number of hours was hardly meant as one."""


@functools.cache
def _warn_of_milliseconds(ttl: float) -> None:
    """Warn of it once in a process: a lock is made again and again."""
    logging.getLogger("lockfast").warning(
        "ttl=%g is %.1f hours: if its holder dies, the lock stays closed for so long. A ttl is in "
        "seconds; if milliseconds were meant, write ttl=%g",
        ttl,
        ttl / 3600,
        ttl / 1000,
    )


def _checked_closing(option: str, seconds: float) -> None:
    # A store has to count to the end of it; what it cannot count it cannot end either.
    if not 0 <= _number(option, seconds) <= LONGEST_TTL:
        raise ConfigurationError(
            f"{option}={seconds!r}: 0 s to {LONGEST_TTL:g} s (a week) is accepted"
        )


def checked_timeout(timeout: float | None) -> float | None:
    """Return the timeout, or say what None and 0 mean."""
    if timeout is not None and _is_outside(_number("timeout", timeout), above=-1e-300):
        raise ConfigurationError(
            f"timeout={timeout!r}: None waits for ever, 0 tries once, more waits that many seconds"
        )
    return timeout


def checked_request_timeout(seconds: float) -> float:
    """Return how long one request may take, or refuse it."""
    if _is_outside(_number("request_timeout", seconds), above=0.0, at_most=3600.0):
        raise ConfigurationError(
            f"request_timeout={seconds!r}: more than 0 s and at most 3600 s is accepted"
        )
    return seconds


def checked_capacity(capacity: int) -> int:
    """Return a semaphore's capacity, or refuse it."""
    return _whole("capacity", capacity, LARGEST_CAPACITY)


def checked_permits(permits: int, *, capacity: int) -> int:
    """Return how many permits one acquire takes; more than there are could never be had."""
    return _whole("permits", permits, capacity)


def checked_shards(shards: int) -> int:
    """Return how many shards there are, or refuse it: who tries all of them asks for each."""
    return _whole("shards", shards, MOST_SHARDS)


def checked_stripes(stripes: int) -> int:
    """Return over how many stripes keys are spread, or refuse it."""
    return _whole("stripes", stripes, LARGEST_CAPACITY)


def checked_count(option: str, count: int) -> int:
    """Return how many rows, or how many attempts, or refuse it."""
    return _whole(option, count, LARGEST_CAPACITY)


def checked_poll(poll: float | None) -> float | None:
    """Return how often is looked for new work, or say what None means."""
    if poll is not None and _is_outside(_number("poll", poll), above=0.0, at_most=LONGEST_TTL):
        raise ConfigurationError(
            f"poll={poll!r}: None ends when nothing is left, more than 0 s looks again so often"
        )
    return poll


def checked_cancel(cancel: object) -> None:
    """Refuse what nobody could ask whether it is set, before anything waits for it."""
    if cancel is None:
        return
    if isinstance(cancel, type) or not callable(getattr(cancel, "is_set", None)):
        raise TypeError(f"cancel is an event of threading or asyncio (is_set()), not {cancel!r}")


def checked_token(token: int | None) -> int | None:
    """Return a fencing token as it was told, or refuse what cannot be one."""
    return None if token is None else _whole("token", token, LARGEST_TOKEN)


def checked_owner(owner: str | None) -> str | None:
    """Return the name of an explicit owner, or refuse it."""
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
    """Return what a decorated call does when the lock is held, or list the choices."""
    if choice not in ("wait", "skip", "raise"):
        raise ConfigurationError(f"if_held={choice!r}: wait, skip or raise is accepted")
    return choice  # type: ignore[return-value]


def checked_skipped(skipped: object, *, if_held: str) -> object:
    """Return what a call returns that was skipped, or refuse it where none is."""
    if skipped is UNSET:
        return None
    if if_held != "skip":
        raise ConfigurationError(
            "skipped= is what a skipped call returns: it goes with if_held='skip'"
        )
    return skipped


def checked_switch(option: str, value: object) -> bool:
    """Return whether an option is on: true or false in a call, and one of a few words in a URL."""
    found = _SWITCHES.get(str(value).lower())
    if found is None:
        raise ConfigurationError(f"{option}={value!r}: true or false is accepted")
    return found


_SWITCHES = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def checked_keywords(given: Iterable[str], *, accepted: Collection[str], what: str) -> None:
    """Refuse options that nobody knows, listing those that are known."""
    unknown = sorted(set(given).difference(accepted))
    if unknown:
        hints = [_ELSEWHERE[one] for one in unknown if one in _ELSEWHERE]
        alike = [one for word in unknown for one in closest(word, accepted)]
        if alike and not hints:
            hints = [f"did you mean {', '.join(alike)}?"]
        listed = f"accepted: {', '.join(sorted(accepted)) or 'none'}"
        raise ConfigurationError(
            f"unknown option {', '.join(unknown)} for {what}; {'; '.join([*hints, listed])}"
        )


_ELSEWHERE = {
    "blocking": "acquire() waits, and try_acquire() does not",
    "blocking_timeout": "how long to wait is timeout=, how long the lock lives is ttl=",
    "expire": "how long the lock lives is ttl=",
}
"""What options of other libraries' locks are called here."""


def closest(word: str, known: Iterable[str]) -> list[str]:
    """Return what may have been meant: the known words that look like this one, at most three."""
    import difflib  # noqa: PLC0415 - only for who has mistyped something

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
    # Compared, not converted: an int may lie beyond all floats, and NaN is inside nothing.
    return not above < value <= min(at_most, sys.float_info.max)


def _whole(option: str, value: int, largest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{option} is a whole number, not {type(value).__name__}")
    if not 1 <= value <= largest:
        raise ConfigurationError(f"{option}={value!r}: 1 to {largest} is accepted")
    return value


def _checked_bool(option: str, value: bool) -> None:  # noqa: FBT001 - it is the value checked
    if not isinstance(value, bool):
        raise TypeError(f"{option} is True or False, not {type(value).__name__}")
