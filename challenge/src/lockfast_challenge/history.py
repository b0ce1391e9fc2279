"""What clients did and saw: one line of JSON for each event, in each client's order.

An operation has two events, the first before its request and the second at its reply. A client that
is killed in between leaves only the first event, and the outcome is unknown.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Act = Literal["acquire", "check", "release"]
"""`check` asks the lease itself whether its holder may still act."""

Phase = Literal["invoked", "ok", "fail", "unknown"]
"""`fail` is a definite no: the request was refused, or the lease was known to have ended."""


class NotAHistory(ValueError):
    """A line, or a sequence of lines, that no client could have written."""


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """One thing that one client saw, with its time on a clock that all clients of a run share."""

    at: float
    client: str
    act: Act
    phase: Phase
    number: int
    """The number of the operation to which this event belongs, counted per client."""
    hold: int
    """The hold that this event is about, named by the number of the operation that acquired it."""
    name: str
    weight: int = 1
    capacity: int = 1
    token: int | None = None
    within: int | None = None
    """The client's own hold that this hold re-entered; None if this hold is not a re-entry."""
    reason: str = ""
    deadline: float | None = None
    """The time until which the holder may act according to the lease itself.

    None if the lease has no deadline. The deadline is on the clock of `at`, and is read after the
    check. So a client that is frozen in between records a later deadline, which causes no false
    finding.
    """

    def line(self) -> str:
        """Return the event as one line of JSON, without the fields that have their default."""
        kept = {
            key: value for key, value in asdict(self).items() if value != _DEFAULTS.get(key, _NONE)
        }
        return json.dumps(kept, separators=(",", ":"))


_NONE = object()
_DEFAULTS: dict[str, Any] = {
    field.name: field.default for field in fields(HistoryEvent) if field.default is not MISSING
}
_FIELDS = {field.name for field in fields(HistoryEvent)}


def read(lines: Iterable[str]) -> Iterator[HistoryEvent]:
    """Yield the events of a history; leave out a last line that a kill cut off."""
    cut: str | None = None
    for number, line in enumerate(lines, 1):
        if cut is not None:
            raise NotAHistory(cut)
        try:
            record = json.loads(line)
        except ValueError:
            cut = f"line {number} is not JSON: {line.strip()[:60]!r}"
            continue
        if not isinstance(record, dict) or not record.keys() <= _FIELDS:
            raise NotAHistory(f"line {number} is no event: {line.strip()[:60]!r}")
        try:
            yield HistoryEvent(**record)
        except TypeError as error:
            raise NotAHistory(f"line {number} is no event: {error}") from error


def begun_since(events: Sequence[HistoryEvent], at: float) -> list[HistoryEvent]:
    """Return the events of all operations that were requested at the time `at` or later."""
    begun = {(one.client, one.number) for one in events if one.phase == "invoked" and one.at >= at}
    return [one for one in events if (one.client, one.number) in begun]


@dataclass(frozen=True, slots=True)
class HistoryOperation:
    """Both events of one operation; `answered` is None if the outcome is unknown."""

    client: str
    act: Act
    number: int
    hold: int
    name: str
    invoked: float
    answered: float | None
    is_ok: bool
    weight: int = 1
    capacity: int = 1
    token: int | None = None
    within: int | None = None
    reason: str = ""
    deadline: float | None = None


def operations(events: Iterable[HistoryEvent]) -> list[HistoryOperation]:
    """Return the operations, ordered by the time of their requests.

    Raises NotAHistory for events that no client can have written, such as a reply without a
    request, or a second reply.
    """
    begun: dict[tuple[str, int], HistoryEvent] = {}
    found: list[HistoryOperation] = []
    for event in events:
        key = (event.client, event.number)
        if event.phase == "invoked":
            if key in begun:
                raise NotAHistory(f"client {event.client} began operation {event.number} twice")
            begun[key] = event
            continue
        first = begun.get(key)
        if first is None or first.act != event.act:
            raise NotAHistory(
                f"client {event.client} had no operation {event.number} to be answered"
            )
        if event.at < first.at:
            raise NotAHistory(f"client {event.client}: the clock went back at {event.number}")
        found.append(_operation(first, event))
        del begun[key]
    found.extend(_operation(first, None) for first in begun.values())
    return sorted(found, key=lambda one: one.invoked)


def _operation(first: HistoryEvent, last: HistoryEvent | None) -> HistoryOperation:
    known = last is not None and last.phase != "unknown"
    return HistoryOperation(
        client=first.client,
        act=first.act,
        number=first.number,
        hold=first.hold,
        name=first.name,
        invoked=first.at,
        answered=last.at if last is not None and known else None,
        is_ok=last is not None and last.phase == "ok",
        weight=first.weight,
        capacity=first.capacity,
        token=None if last is None else last.token,
        within=first.within,
        reason="" if last is None else last.reason,
        deadline=None if last is None else last.deadline,
    )
