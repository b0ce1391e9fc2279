"""The facts that pass between the layers: frozen values, no behaviour that acts.

For each name there is a line of claims, in order of arrival, and a door of a certain
capacity. A claim asks; a grant or a held answers; a lease (in the shell) lives on it. Nobody
changes these three either, but they are made at every acquire, and Python takes six times as
long to make what is frozen: so type checkers alone watch over them.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, replace
from json.encoder import encode_basestring_ascii as json_string
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

ALL = 2**31 - 1
"""The capacity of a read-write lock, and the weight of its writer."""


@dataclass_transform(frozen_default=True)
def frozen_to_checkers(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
    """Make a value of a class; see above."""
    return dataclass(slots=True, unsafe_hash=True, kw_only=kw_only)


def printable(text: str) -> str:
    """Return the text with everything escaped that a terminal or a log would obey.

    Names and labels come from other programs: a line break or an escape sequence in one must
    not forge an entry in somebody's log, nor reach a screen.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape", "backslashreplace").decode()
        for one in text
    )


@dataclass(frozen=True, slots=True)
class Owner:
    """Who asks, for people: never used to decide who may release.

    As text it is one line that is safe to show; the fields are what the other one said. `asker`
    tells this thread or task of this client from all others that hold or wait at the same time;
    empty where an older version wrote it down.
    """

    host: str
    pid: int
    context: str = ""
    label: str = ""
    asker: str = ""

    def __str__(self) -> str:
        pid = f" pid {self.pid}" if self.pid else ""  # 0 where the stored text is not ours
        label = f" ({self.label})" if self.label else ""
        return printable(f"{self.host}{pid}{label}")

    def to_text(self) -> str:
        """Return the form that stores keep."""
        return in_context(self.stem, self.context, self.asker)

    @property
    def stem(self) -> str:
        """What the stored form begins with, whichever thread or task it is for."""
        return (
            f'{{"host": {json_string(self.host)}, "pid": {self.pid}, '
            f'"label": {json_string(self.label)}, "context": '
        )

    @classmethod
    def from_text(cls, text: str) -> Owner:
        """Read the stored form; what is not ours becomes a label, so that it can be shown."""
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


def in_context(stem: str, context: str, asker: str = "") -> str:
    """Return the stored form of an owner, by its stem, in one of its threads or tasks."""
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
        """Whether nobody else is admitted beside this claim."""
        return self.weight >= self.capacity


class Window(NamedTuple):
    """For how long a grant is kept that no request of ours asked for, unless it is renewed.

    Counted from `since`, on the client's clock. Until a renewal is answered the hold is trusted
    for the window or for the ttl, whichever ends first.
    """

    since: float
    seconds: float


@frozen_to_checkers()
class Grant:
    """The store's yes. `token` is None only where the backend has no tokens.

    With a `window` it was given by somebody else's release, and lasts so long at first. Where a
    session carries it the ttl is `counted_from` what proves that, on the client's clock; where
    the request waited for a connection, from when it got one. None where the request itself set
    the store's deadline, and was sent at once.
    """

    claim: Claim
    token: int | None
    ttl: float
    window: Window | None = None
    counted_from: float | None = None


class RevisionGuard(NamedTuple):
    """What a transaction of one's own has to compare, so that it is done only under a lease.

    The key was created at this revision, and is still there. On etcd the target is `CREATE`.
    """

    key: bytes
    create_revision: int


@dataclass(frozen=True, slots=True)
class Holder:
    """One who has been admitted, as the store sees it.

    It holds for `age` seconds now. `hold` is what a sequencer knows it by, see
    `core.sequencing.hold_of`; an inspection tells it.
    """

    owner: Owner
    token: int | None
    weight: int
    age: float
    remaining: float | None
    hold: str = ""


@dataclass(frozen=True, slots=True)
class Waiter:
    """One who stands in line, for `age` seconds now."""

    owner: Owner
    weight: int
    place: int
    age: float = 0.0


@dataclass(frozen=True, slots=True)
class Closing:
    """What nobody holds any more and nobody else gets yet: by min_hold or lock_delay.

    `owner` is who had it last; it opens in `remaining` seconds.
    """

    owner: Owner
    weight: int
    remaining: float


@frozen_to_checkers()
class Held:
    """The store's no: by whom it is held, our place in line, when asking again may help.

    `place` is None for a claim that does not queue.
    """

    holders: tuple[Holder, ...]
    place: int | None = None
    retry_in: float | None = None
    closing: tuple[Closing, ...] = ()

    def after(self, seconds: float) -> Held:
        """Return the same answer as it reads so much later."""
        holders = tuple(replace(one, age=one.age + seconds) for one in self.holders)
        closing = tuple(
            replace(one, remaining=one.remaining - seconds)
            for one in self.closing
            if one.remaining > seconds
        )
        return replace(self, holders=holders, closing=closing)


class Renewal(enum.Enum):
    """What became of a renewal. BROKEN is LOST by an operator's hand."""

    RENEWED = "renewed"
    LOST = "lost"
    BROKEN = "broken"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Proven:
    """RENEWED by the session that carries the claim: the ttl counts from what proves that one."""

    counted_from: float


@dataclass(frozen=True, slots=True)
class Inspection:
    """What the store says of one name; it may be stale when it is read."""

    name: str
    capacity: int
    holders: tuple[Holder, ...]
    line: tuple[Waiter, ...]
    last_token: int | None = None
    closing: tuple[Closing, ...] = ()

    @property
    def is_in_use(self) -> bool:
        """Whether somebody holds or waits, or the name stays closed after somebody who did."""
        return bool(self.holders or self.line or self.closing)

    @property
    def closed_for(self) -> float:
        """For how many seconds more all or some of it stays closed, though nobody holds that."""
        return max((one.remaining for one in self.closing), default=0.0)


@dataclass(frozen=True, slots=True)
class Crowd:
    """How many are at a name's door: inside, or in line; and the last token that was given.

    A hint for who may choose among names. From some number on it may be too small.
    """

    number: int
    last_token: int | None


class TokenQuality(enum.StrEnum):
    """How far a token can be trusted never to go back."""

    NONE = "none"
    PROCESS = "process"
    BEST_EFFORT = "best_effort"
    DURABLE = "durable"
    CONSENSUS = "consensus"


@dataclass(frozen=True, slots=True)
class Life:
    """How what a store granted lives in it, and what a client has to do because of that.

    Parts of the ttl count from where the ttl counts: from the request that set the store's
    deadline, or from what proves the session.
    """

    renewed_after: float
    """The part of the ttl after which the next renewal is due."""
    at_risk_for: float
    """The last part of the ttl: what is well never reaches it."""
    ends_by_itself: bool
    """Whether the store forgets a hold that nobody renews, though its client lives on."""
    is_proven: bool
    """Whether a grant and a renewal say from when they count; elsewhere it is the request."""
    has_own_ttl: bool
    """Whether each lock may have another ttl than its client."""
    lost_as: Literal["taken", "session_ended"]
    """Why a lease is lost that the store does not know any more."""
    outlives_a_crash: str
    """Until when a holder that crashed keeps others out, for people."""


BY_TTL = Life(
    renewed_after=1 / 3,  # two renewals may go unanswered before trust ends
    at_risk_for=1 / 3,
    ends_by_itself=True,
    is_proven=False,
    has_own_ttl=True,
    lost_as="taken",
    outlives_a_crash="its ttl has run out",
)
BY_SESSION = Life(
    # A session may be proven by the last heartbeat but one: a third more of the ttl is gone.
    renewed_after=2 / 3,
    at_risk_for=1 / 6,
    ends_by_itself=False,
    is_proven=True,
    has_own_ttl=False,
    lost_as="session_ended",
    outlives_a_crash="its session has ended: a full ttl, after an election if there is one",
)
BY_PROMPT_SESSION = replace(
    BY_SESSION,
    # The last heartbeat has proven it: as much is gone as of a lease that was renewed then.
    renewed_after=BY_TTL.renewed_after,
    at_risk_for=BY_TTL.at_risk_for,
    outlives_a_crash="its session has ended, an election and a full ttl, and a full ttl after that",
)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend declares; the contract holds it to exactly this."""

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
    """Whether a session is proven from when its last heartbeat was sent, or the one before."""

    @property
    def life(self) -> Life:
        """What `ends_by` means for a client."""
        if self.ends_by == "ttl":
            return BY_TTL
        return BY_PROMPT_SESSION if self.proves_at_once else BY_SESSION

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


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables that a store keeps locks in, and the statements that make and drop them."""

    tables: tuple[str, ...]
    made_by: tuple[str, ...]
    dropped_by: tuple[str, ...]
