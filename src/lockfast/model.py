"""The values that pass between the layers; none of them has side effects.

Each name has a door of a certain capacity and a line of claims, in order of arrival. The reply to a
claim is a Grant or a Held; the client builds a lease on a Grant. Claim, Grant and Held never change
after creation. But every acquire creates them, and Python takes six times as long to create a
frozen dataclass. So only type checkers treat these three as frozen.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, replace
from json.encoder import encode_basestring_ascii as json_string
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

ALL = 2**31 - 1
"""The capacity of a read-write lock, and the weight of its writer."""

FOREVER = float("inf")
"""A time that is never reached, on every clock."""


@dataclass_transform(frozen_default=True)
def frozen_to_checkers(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
    """Return a decorator for a dataclass that only type checkers treat as frozen."""
    return dataclass(slots=True, unsafe_hash=True, kw_only=kw_only)


def printable(text: str) -> str:
    """Return the text with every character escaped that a terminal or a log would interpret.

    Names and labels come from other programs, so a name or label must not forge a log entry with a
    line break, or send an escape sequence to a terminal.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape", "backslashreplace").decode()
        for one in text
    )


@dataclass(frozen=True, slots=True)
class Owner:
    """Describes who made a claim, for display only; it never decides who may release a lock.

    `str()` returns one line that is safe to display; the fields are unescaped, as the process that
    made the claim wrote them. `asker` distinguishes this thread or task of this client from all
    others that hold or wait at the same time; it is empty in records written by older versions.
    """

    host: str
    pid: int
    context: str = ""
    label: str = ""
    asker: str = ""

    def __str__(self) -> str:
        pid = f" pid {self.pid}" if self.pid else ""  # the pid is 0 if the stored text is not ours
        label = f" ({self.label})" if self.label else ""
        return printable(f"{self.host}{pid}{label}")

    def to_text(self) -> str:
        """Return the text that stores keep for this owner."""
        return owner_in_context(self.stem, self.context, self.asker)

    @property
    def stem(self) -> str:
        """The start of the stored form, which is the same for every thread and task."""
        return (
            f'{{"host": {json_string(self.host)}, "pid": {self.pid}, '
            f'"label": {json_string(self.label)}, "context": '
        )

    @classmethod
    def from_text(cls, text: str) -> Owner:
        """Parse the stored form; any other text becomes the label, so that it can be shown."""
        try:
            fields = json.loads(text)
            return cls(
                host=str(fields["host"]),
                pid=int(fields["pid"]),
                context=str(fields.get("context", "")),
                label=str(fields.get("label", "")),
                asker=str(fields.get("asker", "")),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls(host="unknown", pid=0, label=text[:80])


def owner_in_context(stem: str, context: str, asker: str = "") -> str:
    """Return the owner text for one thread or task; all threads and tasks share the JSON `stem`."""
    more = f', "asker": {json_string(asker)}' if asker else ""
    return f"{stem}{json_string(context)}{more}}}"


@frozen_to_checkers()
class Claim:
    """One attempt to hold a name; its id stays the same over every retry.

    `party` is the explicit owner that several claims share; `queues` says whether the
    claim joins the line when it is not admitted at once.
    """

    id: str
    name: str
    client: str
    owner: str
    weight: int
    capacity: int
    ttl: float
    party: str | None = None
    lock_delay: float = 0.0
    min_hold: float = 0.0
    queues: bool = True

    @property
    def exclusive(self) -> bool:
        """Whether this claim leaves no capacity for any other claim."""
        return self.weight >= self.capacity


class Window(NamedTuple):
    """How long a grant made by another client's release lasts, unless it is renewed.

    The window counts from `since`, on the client's clock. Until the store answers a renewal, the
    hold is trusted until the window or the ttl ends, whichever comes first.
    """

    since: float
    seconds: float


@frozen_to_checkers()
class Grant:
    """The store's yes. `token` is None only if the backend has no tokens.

    A grant with a `window` was made by another client's release, and at first lasts only as long as
    the window. `counted_from` is the start of the ttl, on the client's clock. For a session, this
    is when the client sent the request that proves the session alive. For a request that waited for
    a connection, it is when the connection became available. `counted_from` is None if the request
    itself set the store's deadline and was sent at once.
    """

    claim: Claim
    token: int | None
    ttl: float
    window: Window | None = None
    counted_from: float | None = None


class RevisionGuard(NamedTuple):
    """A condition for your own transaction, so that it commits only under the lease.

    The transaction must require that the key still exists, and that it was created at this revision
    (in etcd, the compare target `CREATE`).
    """

    key: bytes
    create_revision: int


@dataclass(frozen=True, slots=True)
class Holder:
    """One admitted claim, as the store sees it.

    The claim has held the name for `age` seconds. `hold` is the id by which a sequencer recognises
    the hold (see `lease.sequencer`); only an inspection sets this id.
    """

    owner: Owner
    token: int | None
    weight: int
    age: float
    remaining: float | None
    hold: str = ""


@dataclass(frozen=True, slots=True)
class Waiter:
    """One claim in line, waiting for `age` seconds so far."""

    owner: Owner
    weight: int
    place: int
    age: float = 0.0


@dataclass(frozen=True, slots=True)
class Closing:
    """Capacity that nobody holds but that min_hold or lock_delay keeps closed.

    `owner` is the last holder; the capacity is free again in `remaining` seconds.
    """

    owner: Owner
    weight: int
    remaining: float


@frozen_to_checkers()
class Held:
    """The store's no, with the holders of the name, our place in line, and when to ask again.

    `place` is None for a claim that does not queue.
    """

    holders: tuple[Holder, ...]
    place: int | None = None
    retry_in: float | None = None
    closing: tuple[Closing, ...] = ()

    def after(self, seconds: float) -> Held:
        """Return this reply as it would read `seconds` later."""
        holders = tuple(replace(one, age=one.age + seconds) for one in self.holders)
        closing = tuple(
            replace(one, remaining=one.remaining - seconds)
            for one in self.closing
            if one.remaining > seconds
        )
        return replace(self, holders=holders, closing=closing)


class Renewal(enum.Enum):
    """The outcome of a renewal. BROKEN means lost because an operator broke the lock."""

    RENEWED = "renewed"
    LOST = "lost"
    BROKEN = "broken"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Proven:
    """RENEWED, in a store with sessions; `counted_from` is the start of the ttl, as in `Grant`."""

    counted_from: float


@dataclass(frozen=True, slots=True)
class Inspection:
    """What the store reports about one name; it may be stale by the time it is read."""

    name: str
    capacity: int
    holders: tuple[Holder, ...]
    line: tuple[Waiter, ...]
    last_token: int | None = None
    closing: tuple[Closing, ...] = ()

    @property
    def is_in_use(self) -> bool:
        """Whether the name is held or waited for, or still closed after a past hold."""
        return bool(self.holders or self.line or self.closing)

    @property
    def closed_for(self) -> float:
        """Seconds until no capacity is kept closed any more."""
        return max((one.remaining for one in self.closing), default=0.0)


@dataclass(frozen=True, slots=True)
class Crowd:
    """The number of claims at a name's door, holding or in line, and the last token granted.

    This is a hint for choosing among names. A large number may be reported too low.
    """

    number: int
    last_token: int | None


class TokenQuality(enum.StrEnum):
    """How reliably the tokens of a name only ever grow."""

    NONE = "none"
    PROCESS = "process"
    BEST_EFFORT = "best_effort"
    DURABLE = "durable"
    CONSENSUS = "consensus"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend declares; the contract tests require exactly these guarantees."""

    fair: bool
    shared: bool
    push_wakeup: bool
    explicit_owner: bool
    lock_delay: bool
    token_quality: TokenQuality
    ends_by: Literal["ttl", "session"]
    hands_over: bool = False
    sequencers: bool = False
    proves_at_once: bool = False
    """Whether a keep-alive proves that its session was alive when the keep-alive was sent.
    Otherwise a keep-alive only proves that the session was alive at the previous contact.
    """

    @property
    def has_tokens(self) -> bool:
        """Whether a lease has a fencing token."""
        return self.token_quality is not TokenQuality.NONE


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that `diagnose` found about a deployment, and how to fix it."""

    level: Literal["ok", "note", "warning", "error"]
    subject: str
    message: str
    remedy: str = ""

    @classmethod
    def ok(cls, subject: str, message: str) -> Self:
        """Return a finding that needs no action."""
        return cls("ok", subject, message)

    @classmethod
    def note(cls, subject: str, message: str, remedy: str = "") -> Self:
        """Return a finding that an operator should know."""
        return cls("note", subject, message, remedy)

    @classmethod
    def warning(cls, subject: str, message: str, remedy: str = "") -> Self:
        """Return a finding about a promise that holds only in part."""
        return cls("warning", subject, message, remedy)

    @classmethod
    def error(cls, subject: str, message: str, remedy: str = "") -> Self:
        """Return a finding about something without which locks do not work."""
        return cls("error", subject, message, remedy)


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables in which a store keeps locks, and the statements that create and drop them."""

    tables: tuple[str, ...]
    made_by: tuple[str, ...]
    dropped_by: tuple[str, ...]
